/**
 * Deletes old rows, oldest first, in the agenda and never while handling input: by age and by bytes, which
 * are counted when a row is written. The command log is limited only by bytes, the outbox by its number of
 * rows, whether they were delivered or not.
 */
import { LIMIT } from '../../protocol/limits.ts';
import { type DueSource, earliest } from '../object/agenda.ts';
import type { Turn } from '../object/turn.ts';
import { SITE_BOUNDS } from './bounds.ts';

const RETRY_MS = 60_000;

/**
 * The size of a table without counting its rows. Each row stores where its bytes begin, so the oldest row that
 * may be deleted and the newest row are enough. A level of telemetry stores its total size instead.
 */
export interface Extent {
  startsAt: number;
  endsAt: number;
  /** Time of the oldest row; undefined if no row may be deleted because of its age. */
  oldestMs: number | undefined;
}

export const EMPTY: Extent = { startsAt: 0, endsAt: 0, oldestMs: undefined };

export function bytesOf({ startsAt, endsAt }: Extent): number {
  return endsAt - startsAt;
}

/** A table whose oldest rows are deleted by age or size. */
export interface Trimmable {
  extent(): Extent;
  /**
   * Deletes about `limit` of the oldest rows, if they start before `place` or, in tables limited by age, are
   * older than `beforeMs`. Returns 0 only if it deleted none.
   */
  trim(turn: Turn, place: number, beforeMs: number, limit: number): number;
}

export interface Budget {
  name: string;
  table: Trimmable;
  bytes: number;
  /** Maximum age of its rows, ms; absent: no limit. */
  ageMs?: () => number;
}

/** The tables that are limited by bytes, with their budgets. `levels`: those of the telemetry. */
export function siteBudgets(
  tables: { journalRows: Trimmable; commandRows: Trimmable; messageIds: Trimmable; planChanges: Trimmable },
  levels: readonly Budget[],
): Budget[] {
  const { journalBytes, journalMs, commandLogBytes, messageIdBytes, planHistoryBytes } = SITE_BOUNDS;
  const messageIdMs = LIMIT.messageIdMemoryMs;
  return [
    { name: 'journal', table: tables.journalRows, bytes: journalBytes, ageMs: () => journalMs },
    ...levels,
    { name: 'command log', table: tables.commandRows, bytes: commandLogBytes },
    { name: 'plan history', table: tables.planChanges, bytes: planHistoryBytes },
    { name: 'messageIds', table: tables.messageIds, bytes: messageIdBytes, ageMs: () => messageIdMs },
  ];
}

/** A table that is limited by its number of rows. */
export interface Counted {
  readonly count: number;
  deleteOldest(turn: Turn, count: number): void;
}

export class Retention implements DueSource {
  readonly name = 'retention';
  readonly #budgets: readonly Budget[];
  readonly #outbox: Counted;
  readonly #maxOutboxRows: number;
  /** When to retry a table from which nothing could be deleted. */
  readonly #notBeforeMs = new Map<string, number>();

  constructor(budgets: readonly Budget[], outbox: Counted, maxOutboxRows: number = SITE_BOUNDS.outboxRows) {
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
  console.warn('table reached its storage limit, deleting its oldest rows', { table });
}
