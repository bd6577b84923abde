/** One event of the journal as a line: its kind, its site and the signed text that AMQP delivers, separated by tabs. */
import { EVENT_KINDS, type EventKind } from '../../../protocol/routing-keys.ts';
import type { JournalQuery } from '../../journal-rpc.ts';
import type { JournalLines } from './rows.ts';

export interface JournalEvent {
  sequence: number;
  kind: EventKind;
  siteId: string;
  /** The signed JSON text, byte for byte as AMQP delivers it; it has no line break and no tab. */
  body: string;
}

/** A site id may be any text, because a partner can send an unknown one: as JSON it has no tab and no line break. */
export function eventLine({ kind, siteId, body }: Omit<JournalEvent, 'sequence'>): string {
  return `${kind}\t${JSON.stringify(siteId)}\t${body}\n`;
}

/** The events of a row. */
export function eventsOf({ first, data }: JournalLines): JournalEvent[] {
  const lines = data.split('\n').slice(0, -1);
  return lines.map((line, index) => {
    const kindEnd = line.indexOf('\t');
    const siteEnd = line.indexOf('\t', kindEnd + 1);
    const kind = EVENT_KINDS.find((known) => known === line.slice(0, kindEnd));
    if (!kind || siteEnd < 0) throw new Error(`line ${first + index} of the event journal is not an event`);
    const siteId = JSON.parse(line.slice(kindEnd + 1, siteEnd)) as string;
    return { sequence: first + index, kind, siteId, body: line.slice(siteEnd + 1) };
  });
}

/** Whether a reader wants the event. */
export function matches(
  { kinds, siteIds }: Pick<JournalQuery, 'kinds' | 'siteIds'>,
  { kind, siteId }: JournalEvent,
): boolean {
  return (kinds?.includes(kind) ?? true) && (siteIds?.includes(siteId) ?? true);
}
