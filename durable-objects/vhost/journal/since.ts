/** Where the events since a time begin in the journal. */
import { parseInstant } from '../../../protocol/ids.ts';
import type { EventJournal } from './journal.ts';

/** The sequence before the first event since a time. Without such an event: the sequence of the journal's last event. */
export function sequenceBefore(journal: EventJournal, sinceMs: number): number {
  const first = journal.firstSince(sinceMs);
  if (first === undefined) return journal.last;
  // The row has earlier events, too.
  const { events, next } = journal.read({ after: first - 1, limit: Number.MAX_SAFE_INTEGER });
  const event = events.find(({ body }) => {
    const { timestamp } = JSON.parse(body) as { timestamp: string };
    return (parseInstant(timestamp) ?? 0) >= sinceMs;
  });
  return event ? event.sequence - 1 : next;
}
