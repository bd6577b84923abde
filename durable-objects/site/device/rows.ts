/** The devices of a site, and the messages of theirs that were dropped. */
import type { DeviceReportedStatus, DeviceType } from '../../../protocol/enums.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type DeviceRow = {
  id: string;
  type: DeviceType;
  status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED';
  secret_sealed: string;
  secret_form: 'text' | 'bytes';
  reported_status: DeviceReportedStatus | null;
  epoch: number;
  connection_id: string | null;
  bridge_id: string | null;
  bridge_boot: string | null;
  connected_at_ms: number | null;
  disconnected_at_ms: number | null;
  session_expires_at_ms: number | null;
};

export type SessionColumns = Pick<
  DeviceRow,
  'epoch' | 'connection_id' | 'bridge_id' | 'bridge_boot' | 'session_expires_at_ms'
>;

export class DeviceRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): DeviceRow[] {
    return this.#sql.all<DeviceRow>('SELECT * FROM device ORDER BY id');
  }

  /** A device that is new, or has another secret or type; its status stays. */
  put(turn: Turn, device: Pick<DeviceRow, 'id' | 'type' | 'secret_sealed' | 'secret_form'>): void {
    turn.write(
      `INSERT INTO device (id, type, status, secret_sealed, secret_form) VALUES (?, ?, 'ACTIVE', ?, ?)
       ON CONFLICT (id) DO UPDATE SET type = excluded.type, secret_sealed = excluded.secret_sealed,
         secret_form = excluded.secret_form`,
      device.id,
      device.type,
      device.secret_sealed,
      device.secret_form,
    );
  }

  setStatus(turn: Turn, id: string, status: DeviceRow['status']): void {
    turn.write('UPDATE device SET status = ? WHERE id = ?', status, id);
  }

  /** Permanent: what it could sign with is gone. */
  decommission(turn: Turn, id: string): void {
    turn.write(`UPDATE device SET status = 'DECOMMISSIONED', secret_sealed = '' WHERE id = ?`, id);
  }

  setSecretForm(turn: Turn, id: string, form: DeviceRow['secret_form']): void {
    turn.write('UPDATE device SET secret_form = ? WHERE id = ?', form, id);
  }

  setReportedStatus(turn: Turn, id: string, status: DeviceReportedStatus): void {
    turn.write('UPDATE device SET reported_status = ? WHERE id = ?', status, id);
  }

  /** Counts up, also across devices: an epoch is minted once. */
  mintEpoch(turn: Turn): number {
    return turn.writeReturning<{ epoch: number }>('UPDATE counters SET epoch = epoch + 1 RETURNING epoch')
      .epoch;
  }

  /** A connect clears a reported OFFLINE [C-3.10]. */
  openSession(turn: Turn, id: string, session: SessionColumns): void {
    turn.write(
      `UPDATE device SET epoch = ?, connection_id = ?, bridge_id = ?, bridge_boot = ?, connected_at_ms = ?,
         session_expires_at_ms = ?, disconnected_at_ms = NULL,
         reported_status = CASE reported_status WHEN 'OFFLINE' THEN NULL ELSE reported_status END WHERE id = ?`,
      session.epoch,
      session.connection_id,
      session.bridge_id,
      session.bridge_boot,
      turn.now,
      session.session_expires_at_ms,
      id,
    );
  }

  /** Ends the session of that epoch; a newer one stays. */
  closeSession(turn: Turn, id: string, epoch: number, endedAtMs: number): void {
    turn.write(
      `UPDATE device SET connection_id = NULL, session_expires_at_ms = NULL, disconnected_at_ms = ?
       WHERE id = ? AND epoch = ? AND connection_id IS NOT NULL`,
      endedAtMs,
      id,
      epoch,
    );
  }

  countDropped(turn: Turn, deviceId: string, reason: string, count: number): void {
    turn.write(
      `INSERT INTO dropped_message (device_id, reason, count, last_at_ms) VALUES (?, ?, ?, ?)
       ON CONFLICT (device_id, reason) DO UPDATE SET count = count + excluded.count, last_at_ms = excluded.last_at_ms`,
      deviceId,
      reason,
      count,
      turn.now,
    );
  }

  dropped(deviceId: string): { reason: string; count: number }[] {
    return this.#sql.all('SELECT reason, count FROM dropped_message WHERE device_id = ?', deviceId);
  }
}
