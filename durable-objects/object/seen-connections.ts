/** Connection ids seen lately: a bridge's proof opens a link once (rule 1). */
import { PROOF_TOLERANCE_MS } from '../../protocol/link/proof.ts';
import type { Sql } from './sql.ts';
import type { Turn } from './turn.ts';

/** A proof is good for its tolerance either side of its time; a little longer is remembered. */
const REMEMBERED_MS = 2.5 * PROOF_TOLERANCE_MS;

export class SeenConnections {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** True when the id opened a link here before: a replayed proof. */
  has(id: string): boolean {
    return this.#sql.one('SELECT 1 FROM seen_connection WHERE id = ?', id) !== undefined;
  }

  remember(turn: Turn, id: string): void {
    turn.write('DELETE FROM seen_connection WHERE at_ms < ?', turn.now - REMEMBERED_MS);
    turn.write('INSERT INTO seen_connection (id, at_ms) VALUES (?, ?)', id, turn.now);
  }
}
