/** The RPC contract for reads of a key's event journal. Add fields, never change the meaning of one (see rpc.ts). */
import type { EventKind } from '../protocol/routing-keys.ts';

/** A request for events after a sequence, up to a number of them. */
export interface JournalQuery {
  /** The sequence of the last event that the reader has; 0 = none. */
  after: number;
  limit: number;
  /** Absent: all kinds, and all sites. */
  kinds?: readonly EventKind[] | undefined;
  siteIds?: readonly string[] | undefined;
}

/**
 * The answer to a JournalQuery. `items`: JSON of the events, separated by commas; `next`: the sequence to continue
 * after; `firstKept`: that of the first event that is kept; `last`: that of the last one; `gap`: events after `after`
 * are no longer kept. `refused`: the key has ended, or it has no journal.
 */
export type JournalAnswer =
  | { items: string; next: number; firstKept: number; last: number; gap: boolean }
  | { refused: 'ended' | 'none' };

/** An event of a command, and when it was made. */
export interface EventSearch {
  messageId: string;
  madeAtMs: number;
}

/**
 * An event that the journal has, or had. `storedAtMs`: when the journal stored it; null: not known. `confirmed`: when
 * clients acknowledged it (`by`: the queue) and receivers answered (`by`: the webhook).
 */
export interface FoundEvent {
  messageId: string;
  storedAtMs: number | null;
  confirmed: { atMs: number; by: string }[];
}

export interface JournalRpc {
  /** Which of these events the journal has. */
  findEvents(searches: EventSearch[]): FoundEvent[];
  /** Reads events of the journal [C-12.2]. */
  readJournal(query: JournalQuery): JournalAnswer;
}
