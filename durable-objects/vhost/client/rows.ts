/** The live connections of a key's clients. */
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type ConnectionRow = {
  id: string;
  bridge_id: string;
  bridge_boot: string;
  address: string;
  connected_at_ms: number;
};

export class ConnectionRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): ConnectionRow[] {
    return this.#sql.all<ConnectionRow>('SELECT * FROM connection ORDER BY connected_at_ms');
  }

  insert(turn: Turn, row: ConnectionRow): void {
    turn.insert('connection', row);
  }

  delete(turn: Turn, id: string): void {
    turn.write('DELETE FROM connection WHERE id = ?', id);
  }
}
