/**
 * Nonces that are not in the journal: those of devices moved from another object, and those of token
 * requests. Kept until they are no longer valid for replay detection [C-3.8].
 */
import type { DueSource } from '../../object/agenda.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { type NonceUse, REPLAY_HORIZON_MS } from './replay.ts';

/** Nonces per row; with the longest nonces, a third of the maximum row size. */
const PER_ROW = 1_000;

type Row = { id: number; until_ms: number; data: string };

export class MovedNonces implements DueSource {
  readonly name = 'moved nonces';
  readonly #sql: Sql;
  /** Undefined: not read yet; null: no nonces. */
  #dueMs: number | null | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  *all(): Generator<NonceUse> {
    const rows = this.#sql.each<Row>(
      'SELECT id, until_ms, data FROM moved_nonce WHERE id > ? ORDER BY id LIMIT ?',
      { key: 'id', from: 0, rows: 16 },
    );
    for (const { data } of rows) yield* JSON.parse(data) as NonceUse[];
  }

  add(turn: Turn, nonces: readonly NonceUse[]): void {
    this.#dueMs = undefined;
    for (let start = 0; start < nonces.length; start += PER_ROW) {
      const some = nonces.slice(start, start + PER_ROW);
      const untilMs = Math.max(...some.map(({ ts, receivedMs }) => Math.max(ts, receivedMs)));
      turn.insert('moved_nonce', { until_ms: untilMs + REPLAY_HORIZON_MS, data: JSON.stringify(some) });
    }
  }

  dueMs(): number | undefined {
    if (this.#dueMs === undefined) {
      const row = this.#sql.one<{ due: number | null }>('SELECT min(until_ms) AS due FROM moved_nonce');
      this.#dueMs = row?.due ?? null;
    }
    return this.#dueMs ?? undefined;
  }

  run(turn: Turn): void {
    this.#dueMs = undefined;
    turn.write('DELETE FROM moved_nonce WHERE until_ms <= ?', turn.now);
  }
}
