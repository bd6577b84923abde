/** Rows with the last sequence stored from each site's outbox; events up to it are dropped as duplicates. */
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export class ReceivedRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Last stored sequence by site id. */
  all(): Map<string, number> {
    const rows = this.#sql.all<{ site_id: string; sequence: number }>(
      'SELECT site_id, sequence FROM received',
    );
    return new Map(rows.map((row) => [row.site_id, row.sequence]));
  }

  set(turn: Turn, siteId: string, sequence: number): void {
    turn.replace('received', { site_id: siteId, sequence });
  }

  deleteAll(turn: Turn): void {
    turn.write('DELETE FROM received');
  }
}
