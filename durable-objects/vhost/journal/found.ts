/** Finds events of a command in the journal: when each was stored, and which readers have confirmed it [C-13.2]. */
import type { EventSearch, FoundEvent } from '../../journal-rpc.ts';
import { eventsOf, type JournalEvent } from './line.ts';
import { readMarks } from './marks.ts';
import type { JournalRows } from './rows.ts';

/** How many times of being confirmed are shown of an event: the latest ones. */
const CONFIRMATIONS = 20;
/**
 * How many rows are read for each event: the two that began last before the event was made, and those after. An event
 * that comes to the journal late is further on.
 */
const ROWS = 8;

export function findEvents(rows: JournalRows, searches: readonly EventSearch[]): FoundEvent[] {
  return searches.flatMap(({ messageId, madeAtMs }) => {
    let storedAtMs: number | undefined;
    let isFound = false;
    const confirmed: FoundEvent['confirmed'] = [];
    for (const row of rows.around(madeAtMs, ROWS)) {
      const marks = readMarks(row.marks);
      confirmed.push(...marks.confirmed.filter((one) => one.messageId === messageId));
      const event = row.data.includes(messageId) ? eventsOf(row).find(isOf(messageId)) : undefined;
      if (isFound || !event) continue;
      isFound = true;
      storedAtMs = marks.storedAtMs(event.sequence);
    }
    if (!isFound && confirmed.length === 0) return [];
    const shown = confirmed.slice(-CONFIRMATIONS).map(({ atMs, by }) => ({ atMs, by }));
    return [{ messageId, storedAtMs: storedAtMs ?? null, confirmed: shown }];
  });
}

function isOf(messageId: string): (event: JournalEvent) => boolean {
  return ({ body }) => body.includes(messageId) && JSON.parse(body).messageId === messageId;
}
