/** Recently used connection ids: a bridge proof opens a link only once (rule 1). */
import { PROOF_TOLERANCE_MS } from '../../protocol/link/proof.ts';
import type { Sql } from './sql.ts';
import type { Turn } from './turn.ts';

/** A proof is valid for the tolerance before and after its time; the id is remembered a little longer. */
const REMEMBERED_MS = 2.5 * PROOF_TOLERANCE_MS;

export class SeenConnections {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** True if the id has already opened a link here: the proof is a replay. */
  has(id: string): boolean {
    return this.#sql.one('SELECT 1 FROM seen_connection WHERE id = ?', id) !== undefined;
  }

  remember(turn: Turn, id: string): void {
    turn.write('DELETE FROM seen_connection WHERE at_ms < ?', turn.now - REMEMBERED_MS);
    turn.insert('seen_connection', { id, at_ms: turn.now });
  }
}
