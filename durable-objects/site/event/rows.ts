/** The outbox: what must still reach a lane, a key's Vhost or the registry (rule 5). */
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type OutboxRow = {
  sequence: number;
  lane: string;
  kind: EventKind | 'device' | 'plant' | 'sub-device';
  message_id: string;
  correlation_id: string | null;
  at_ms: number;
  payload: string;
};

export type NewOutboxRow = Omit<OutboxRow, 'sequence'>;

/** Sequences that one write takes in advance; what a wake finds unused is never used. */
const SEQUENCES_AHEAD = 1_000;

export class OutboxRows {
  readonly #sql: Sql;
  #sequence: number;
  #sequenceEnd: number;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#sequence = sql.one<{ last: number }>('SELECT outbox_sequence AS last FROM counters')?.last ?? 0;
    this.#sequenceEnd = this.#sequence;
  }

  lanes(): string[] {
    return this.#sql.all<{ lane: string }>('SELECT DISTINCT lane FROM outbox').map((row) => row.lane);
  }

  of(lane: string, afterSequence: number, limit: number): OutboxRow[] {
    return this.#sql.all<OutboxRow>(
      'SELECT * FROM outbox WHERE lane = ? AND sequence > ? ORDER BY sequence LIMIT ?',
      lane,
      afterSequence,
      limit,
    );
  }

  /** The row with its sequence. */
  insert(turn: Turn, row: NewOutboxRow): OutboxRow {
    const sequence = this.#nextSequence(turn);
    turn.write(
      'INSERT INTO outbox (sequence, lane, kind, message_id, correlation_id, at_ms, payload) VALUES (?, ?, ?, ?, ?, ?, ?)',
      sequence,
      row.lane,
      row.kind,
      row.message_id,
      row.correlation_id,
      row.at_ms,
      row.payload,
    );
    return { ...row, sequence };
  }

  deleteThrough(turn: Turn, lane: string, sequence: number): void {
    turn.write('DELETE FROM outbox WHERE lane = ? AND sequence <= ?', lane, sequence);
  }

  deleteLane(turn: Turn, lane: string): void {
    turn.write('DELETE FROM outbox WHERE lane = ?', lane);
  }

  #nextSequence(turn: Turn): number {
    this.#sequence += 1;
    if (this.#sequence > this.#sequenceEnd) {
      this.#sequenceEnd = this.#sequence + SEQUENCES_AHEAD;
      turn.write('UPDATE counters SET outbox_sequence = ?', this.#sequenceEnd);
    }
    return this.#sequence;
  }
}
