/** Commands that admins send to one device over REST [C-3.4]. An open command is a dispatch; its row has the rest. */
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { DispatchState } from '../dispatch/rows.ts';

export type RestCommandRow = {
  cmd_id: string;
  device_id: string;
  action: string;
  /** Null while the command is open: its dispatch has the state. */
  status: Extract<DeviceAckStatus, 'COMPLETED' | 'FAILED'> | null;
  reason: string | null;
  idempotency_key: string | null;
  digest: string;
  created_at_ms: number;
};

/** A row with the state of its dispatch; null when that has ended. */
export type RestCommandWithState = RestCommandRow & { state: DispatchState | null };

export class RestCommandRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  insert(turn: Turn, row: RestCommandRow): void {
    turn.write(
      `INSERT INTO rest_command (cmd_id, device_id, action, status, reason, idempotency_key, digest, created_at_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      row.cmd_id,
      row.device_id,
      row.action,
      row.status,
      row.reason,
      row.idempotency_key,
      row.digest,
      row.created_at_ms,
    );
  }

  end(turn: Turn, cmdId: string, status: RestCommandRow['status'], reason: string | null): void {
    turn.write('UPDATE rest_command SET status = ?, reason = ? WHERE cmd_id = ?', status, reason, cmdId);
  }

  find(deviceId: string, cmdId: string): RestCommandWithState | undefined {
    return this.#sql.one<RestCommandWithState>(
      `SELECT rest_command.*, dispatch.state FROM rest_command LEFT JOIN dispatch USING (cmd_id)
       WHERE rest_command.cmd_id = ? AND rest_command.device_id = ?`,
      cmdId,
      deviceId,
    );
  }

  findByKey(deviceId: string, idempotencyKey: string): RestCommandWithState | undefined {
    return this.#sql.one<RestCommandWithState>(
      `SELECT rest_command.*, dispatch.state FROM rest_command LEFT JOIN dispatch USING (cmd_id)
       WHERE rest_command.device_id = ? AND idempotency_key = ? ORDER BY sequence DESC`,
      deviceId,
      idempotencyKey,
    );
  }

  /** Newest first. */
  page(deviceId: string, offset: number, limit: number): { rows: RestCommandWithState[]; total: number } {
    const rows = this.#sql.all<RestCommandWithState>(
      `SELECT rest_command.*, dispatch.state FROM rest_command LEFT JOIN dispatch USING (cmd_id)
       WHERE rest_command.device_id = ? ORDER BY sequence DESC LIMIT ? OFFSET ?`,
      deviceId,
      limit,
      offset,
    );
    return { rows, total: this.#count(deviceId, '') };
  }

  countOpen(deviceId: string): number {
    return this.#count(deviceId, 'AND status IS NULL');
  }

  /** Deletes the oldest ended commands of a device above that number. */
  trim(turn: Turn, deviceId: string, most: number): void {
    turn.write(
      `DELETE FROM rest_command WHERE status IS NOT NULL AND sequence IN
         (SELECT sequence FROM rest_command WHERE device_id = ? ORDER BY sequence DESC LIMIT -1 OFFSET ?)`,
      deviceId,
      most,
    );
  }

  #count(deviceId: string, and: '' | 'AND status IS NULL'): number {
    const row = this.#sql.one<{ count: number }>(
      `SELECT count(*) AS count FROM rest_command WHERE device_id = ? ${and}`,
      deviceId,
    );
    return row?.count ?? 0;
  }
}
