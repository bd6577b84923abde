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
    turn.write(
      'INSERT INTO connection (id, bridge_id, bridge_boot, address, connected_at_ms) VALUES (?, ?, ?, ?, ?)',
      row.id,
      row.bridge_id,
      row.bridge_boot,
      row.address,
      row.connected_at_ms,
    );
  }

  delete(turn: Turn, id: string): void {
    turn.write('DELETE FROM connection WHERE id = ?', id);
  }

  deleteAll(turn: Turn): void {
    turn.write('DELETE FROM connection');
  }
}
