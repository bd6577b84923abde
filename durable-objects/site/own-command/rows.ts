/** Commands to a device over REST [C-3.4]: who asked for what, and how it ended. What is open of one is its dispatch. */
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { DispatchState } from '../dispatch/rows.ts';

export type OwnCommandRow = {
  cmd_id: string;
  device_id: string;
  action: string;
  /** Null while it is open: its dispatch says. */
  status: Extract<DeviceAckStatus, 'COMPLETED' | 'FAILED'> | null;
  reason: string | null;
  idempotency_key: string | null;
  digest: string;
  created_at_ms: number;
};

/** With what its dispatch says. */
export type KnownOwnCommand = OwnCommandRow & { state: DispatchState | null };

export class OwnCommandRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  insert(turn: Turn, row: OwnCommandRow): void {
    turn.write(
      `INSERT INTO own_command (cmd_id, device_id, action, status, reason, idempotency_key, digest, created_at_ms)
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

  end(turn: Turn, cmdId: string, status: OwnCommandRow['status'], reason: string | null): void {
    turn.write('UPDATE own_command SET status = ?, reason = ? WHERE cmd_id = ?', status, reason, cmdId);
  }

  find(deviceId: string, cmdId: string): KnownOwnCommand | undefined {
    return this.#sql.one<KnownOwnCommand>(
      `SELECT own_command.*, dispatch.state FROM own_command LEFT JOIN dispatch USING (cmd_id)
       WHERE own_command.cmd_id = ? AND own_command.device_id = ?`,
      cmdId,
      deviceId,
    );
  }

  findByKey(deviceId: string, idempotencyKey: string): KnownOwnCommand | undefined {
    return this.#sql.one<KnownOwnCommand>(
      `SELECT own_command.*, dispatch.state FROM own_command LEFT JOIN dispatch USING (cmd_id)
       WHERE own_command.device_id = ? AND idempotency_key = ? ORDER BY sequence DESC`,
      deviceId,
      idempotencyKey,
    );
  }

  /** Newest first. */
  page(deviceId: string, offset: number, limit: number): { rows: KnownOwnCommand[]; total: number } {
    const rows = this.#sql.all<KnownOwnCommand>(
      `SELECT own_command.*, dispatch.state FROM own_command LEFT JOIN dispatch USING (cmd_id)
       WHERE own_command.device_id = ? ORDER BY sequence DESC LIMIT ? OFFSET ?`,
      deviceId,
      limit,
      offset,
    );
    return { rows, total: this.#count(deviceId, '') };
  }

  countOpen(deviceId: string): number {
    return this.#count(deviceId, 'AND status IS NULL');
  }

  /** The oldest that have ended leave, beyond so many of a device. */
  trim(turn: Turn, deviceId: string, most: number): void {
    turn.write(
      `DELETE FROM own_command WHERE status IS NOT NULL AND sequence IN
         (SELECT sequence FROM own_command WHERE device_id = ? ORDER BY sequence DESC LIMIT -1 OFFSET ?)`,
      deviceId,
      most,
    );
  }

  #count(deviceId: string, and: '' | 'AND status IS NULL'): number {
    const row = this.#sql.one<{ count: number }>(
      `SELECT count(*) AS count FROM own_command WHERE device_id = ? ${and}`,
      deviceId,
    );
    return row?.count ?? 0;
  }
}
