/** Alarms of commands leave by here: told to each of their keys, and counted once however many there are. */
import type { Alarm } from '../../../protocol/event.ts';
import type { Turn } from '../../object/turn.ts';
import type { SiteParts } from '../parts.ts';
import type { NewOutboxRow } from './rows.ts';

export function raise(
  turn: Turn,
  { outbox, counts }: SiteParts,
  type: Alarm['type'],
  rows: readonly NewOutboxRow[],
): void {
  outbox.emit(turn, ...rows);
  const alarms = new Set(rows.map((row) => row.message_id));
  counts.add(turn, `alarms/${type}`, alarms.size);
}
