/**
 * The tables of webhooks: how far each is delivered, with its newest attempts, and rows of older attempts. An attempt
 * per row would cost as much as the event.
 */
import type { WebhookAttempt } from '../../../protocol/webhook.ts';
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { EndpointState } from './endpoint.ts';

export type AttemptRow = { position: number; attempt_count: number };

export class WebhookRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): { id: string; state: EndpointState; recent: WebhookAttempt[] }[] {
    const rows = this.#sql.all<{ id: string; state: string; recent: string }>(
      'SELECT id, state, recent FROM webhook ORDER BY id',
    );
    return rows.map(({ id, state, recent }) => ({
      id,
      state: JSON.parse(state),
      recent: JSON.parse(recent),
    }));
  }

  set(turn: Turn, id: string, state: EndpointState, recent: readonly WebhookAttempt[]): void {
    turn.replace('webhook', {
      id,
      state: boundedRow(JSON.stringify(state)),
      recent: boundedRow(JSON.stringify(recent)),
    });
  }

  delete(turn: Turn, id: string): void {
    turn.write('DELETE FROM webhook WHERE id = ?', id);
    turn.write('DELETE FROM webhook_attempts WHERE webhook_id = ?', id);
  }

  /** The rows of older attempts of a webhook, oldest first. */
  attemptRows(id: string): AttemptRow[] {
    return this.#sql.all<AttemptRow>(
      'SELECT position, attempt_count FROM webhook_attempts WHERE webhook_id = ? ORDER BY position',
      id,
    );
  }

  /** Older attempts, oldest first. */
  attempts(id: string): WebhookAttempt[] {
    const rows = this.#sql.all<{ data: string }>(
      'SELECT data FROM webhook_attempts WHERE webhook_id = ? ORDER BY position',
      id,
    );
    return rows.flatMap(({ data }) => JSON.parse(data) as WebhookAttempt[]);
  }

  insertAttempts(turn: Turn, id: string, attempts: readonly WebhookAttempt[]): void {
    turn.insert('webhook_attempts', {
      webhook_id: id,
      attempt_count: attempts.length,
      data: boundedRow(JSON.stringify(attempts)),
    });
  }

  deleteAttempts(turn: Turn, position: number): void {
    turn.write('DELETE FROM webhook_attempts WHERE position = ?', position);
  }
}
