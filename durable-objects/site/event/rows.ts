/** The outbox rows: events and changes still to be delivered to a key's Vhost or the registry (rule 5). */
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { RegistryWrite } from '../../../registry/entries.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type OutboxRow = {
  sequence: number;
  lane: string;
  kind: EventKind | RegistryWrite['kind'];
  message_id: string;
  correlation_id: string | null;
  at_ms: number;
  payload: string;
};

export type NewOutboxRow = Omit<OutboxRow, 'sequence'>;

/**
 * Number of sequences that one write reserves. Reserved sequences that are unused when the object is evicted
 * are never used.
 */
const SEQUENCES_AHEAD = 1_000;
/**
 * Sequences per millisecond of the clock: more rows than an object can write in that time, so a sequence that
 * starts at the clock is higher than all earlier ones.
 */
const SEQUENCES_PER_MS = 1_000;

export class OutboxRows {
  readonly #sql: Sql;
  #sequence: number;
  #sequenceEnd: number;
  #isStarted = false;
  #count: number | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#sequence = sql.one<{ last: number }>('SELECT outbox_sequence AS last FROM counters')?.last ?? 0;
    this.#sequenceEnd = this.#sequence;
  }

  lanes(): string[] {
    return this.#sql.all<{ lane: string }>('SELECT DISTINCT lane FROM outbox').map((row) => row.lane);
  }

  /** Number of rows in all lanes. */
  get count(): number {
    this.#count ??= this.#sql.one<{ count: number }>('SELECT count(*) AS count FROM outbox')?.count ?? 0;
    return this.#count;
  }

  /**
   * Makes new rows get higher sequences than this one, which a destination already has. It would ignore rows
   * with lower sequences as repeats.
   */
  raise(sequence: number): void {
    this.#sequence = Math.max(this.#sequence, sequence);
  }

  /** Deletes the oldest rows of all lanes, even if they were not delivered. */
  deleteOldest(turn: Turn, count: number): void {
    turn.write(
      'DELETE FROM outbox WHERE sequence IN (SELECT sequence FROM outbox ORDER BY sequence LIMIT ?)',
      count,
    );
    this.#count = undefined;
  }

  of(lane: string, afterSequence: number, limit: number): OutboxRow[] {
    return this.#sql.all<OutboxRow>(
      'SELECT * FROM outbox WHERE lane = ? AND sequence > ? ORDER BY sequence LIMIT ?',
      lane,
      afterSequence,
      limit,
    );
  }

  /** Inserts rows; returns them with their sequences. */
  insert(turn: Turn, rows: readonly NewOutboxRow[]): OutboxRow[] {
    const count = this.count;
    turn.undo(() => {
      this.#count = undefined;
    });
    this.#count = count + rows.length;
    const stored = rows.map((row) => ({ ...row, sequence: this.#nextSequence(turn) }));
    turn.insertAll('outbox', stored);
    return stored;
  }

  deleteThrough(turn: Turn, lane: string, sequence: number): void {
    const left = turn.write('DELETE FROM outbox WHERE lane = ? AND sequence <= ?', lane, sequence);
    this.#left(turn, left);
  }

  deleteLane(turn: Turn, lane: string): void {
    this.#left(turn, turn.write('DELETE FROM outbox WHERE lane = ?', lane));
  }

  #left(turn: Turn, rows: number): void {
    turn.undo(() => {
      this.#count = undefined;
    });
    if (this.#count !== undefined) this.#count -= rows;
  }

  /**
   * The first sequence after the object is loaded is derived from the clock, because an object restored from
   * a backup must not use sequences again that it used after the backup.
   */
  #nextSequence(turn: Turn): number {
    if (!this.#isStarted) this.#sequence = Math.max(this.#sequence, turn.now * SEQUENCES_PER_MS);
    this.#isStarted = true;
    this.#sequence += 1;
    if (this.#sequence > this.#sequenceEnd) {
      this.#sequenceEnd = this.#sequence + SEQUENCES_AHEAD;
      turn.write('UPDATE counters SET outbox_sequence = ?', this.#sequenceEnd);
    }
    return this.#sequence;
  }
}
