/**
 * What leaves a site, oldest first, by the agenda and never with what comes in: messages by age; the journal, the
 * command log and messageIds by the bytes that they were counted at as they were written; the outbox by rows.
 */
import { type DueSource, earliest } from '../object/agenda.ts';
import { bytesOf, type Extent } from '../object/extent.ts';
import type { Turn } from '../object/turn.ts';
import { SITE_BOUNDS } from './bounds.ts';

const RETRY_MS = 60_000;

/** A table that is trimmed at its old end. */
export interface Kept {
  extent(): Extent;
  /** Drops rows that begin before that place or came before that time, so many at most; returns how many. */
  trim(turn: Turn, place: number, beforeMs: number, limit: number): number;
}

export interface Budget {
  name: string;
  table: Kept;
  bytes: number;
  /** For how long it is kept where there is room. */
  ageMs?: () => number;
}

/** A table that is trimmed by its rows. */
export interface Counted {
  readonly count: number;
  deleteOldest(turn: Turn, count: number): void;
}

export class Retention implements DueSource {
  readonly name = 'retention';
  readonly #budgets: readonly Budget[];
  readonly #outbox: Counted;
  readonly #maxOutboxRows: number;
  /** Nothing could leave of a table when it was due: it is looked at again then. */
  readonly #notBeforeMs = new Map<string, number>();

  constructor(budgets: readonly Budget[], outbox: Counted, maxOutboxRows: number) {
    this.#budgets = budgets;
    this.#outbox = outbox;
    this.#maxOutboxRows = maxOutboxRows;
  }

  dueMs(): number | undefined {
    if (this.#outbox.count > this.#maxOutboxRows) return 0;
    return earliest(this.#budgets.map((budget) => this.#dueMs(budget)));
  }

  #dueMs({ name, table, bytes, ageMs }: Budget): number | undefined {
    const notBeforeMs = this.#notBeforeMs.get(name) ?? 0;
    const extent = table.extent();
    if (bytesOf(extent) > bytes) return notBeforeMs;
    if (ageMs === undefined || extent.oldestMs === undefined) return undefined;
    return Math.max(notBeforeMs, extent.oldestMs + ageMs());
  }

  run(turn: Turn): void {
    for (const { name, table, bytes, ageMs } of this.#budgets) {
      const extent = table.extent();
      const beforeMs = ageMs === undefined ? 0 : turn.now - ageMs();
      const isFull = bytesOf(extent) > bytes;
      const isOld = extent.oldestMs !== undefined && extent.oldestMs <= beforeMs;
      if (!isFull && !isOld) continue;
      const left = table.trim(turn, extent.endsAt - bytes, beforeMs, SITE_BOUNDS.rowsPerAlarm);
      if (isFull && left > 0) noteFull(name);
      if (left === 0) this.#notBeforeMs.set(name, turn.now + RETRY_MS);
    }
    const over = this.#outbox.count - this.#maxOutboxRows;
    if (over <= 0) return;
    const left = Math.min(over, SITE_BOUNDS.rowsPerAlarm);
    this.#outbox.deleteOldest(turn, left);
    noteFull('outbox');
  }
}

function noteFull(table: string): void {
  console.warn('a budget is used up: the oldest leaves', { table });
}
