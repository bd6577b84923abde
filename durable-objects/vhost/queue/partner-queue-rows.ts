/** Rows of the partner queues and their bindings. */
import type { TypedArgument } from '../../../protocol/link/vhost.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

/** The declared properties of a queue. */
export interface Definition {
  name: string;
  durable: boolean;
  autoDelete: boolean;
  /** The connection of an exclusive queue, which is deleted with it; null for other queues. */
  ownerId: string | null;
  arguments: readonly TypedArgument[];
}

export class PartnerQueueRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): Definition[] {
    return this.#sql
      .all<{
        name: string;
        durable: number;
        auto_delete: number;
        owner_id: string | null;
        arguments: string;
      }>('SELECT name, durable, auto_delete, owner_id, arguments FROM partner_queue ORDER BY name')
      .map((row) => ({
        name: row.name,
        durable: row.durable === 1,
        autoDelete: row.auto_delete === 1,
        ownerId: row.owner_id,
        arguments: JSON.parse(row.arguments) as TypedArgument[],
      }));
  }

  bindings(): { queue: string; pattern: string }[] {
    return this.#sql.all<{ queue: string; pattern: string }>('SELECT queue, pattern FROM binding');
  }

  insert(turn: Turn, { name, durable, autoDelete, ownerId, arguments: typed }: Definition): void {
    const flags = { durable: durable ? 1 : 0, auto_delete: autoDelete ? 1 : 0 };
    turn.insert('partner_queue', { name, ...flags, owner_id: ownerId, arguments: JSON.stringify(typed) });
  }

  bind(turn: Turn, queue: string, pattern: string): void {
    turn.replace('binding', { queue, pattern });
  }

  unbind(turn: Turn, queue: string, pattern: string): void {
    turn.write('DELETE FROM binding WHERE queue = ? AND pattern = ?', queue, pattern);
  }

  /** Deletes a queue and its bindings. */
  delete(turn: Turn, name: string): void {
    turn.write('DELETE FROM partner_queue WHERE name = ?', name);
    turn.write('DELETE FROM binding WHERE queue = ?', name);
  }
}
