/** The device table of a site. */
import type { DeviceReportedStatus, DeviceType } from '../../../protocol/enums.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type DeviceRow = {
  id: string;
  type: DeviceType;
  status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED';
  /** The version of the secret that the device last signed with. */
  last_key_version: number | null;
  status_at_ms: number;
  suspend_reason: string | null;
  /** The object that the device is moving to. */
  leaving: string | null;
  reported_status: DeviceReportedStatus | null;
  epoch: number;
  connection_id: string | null;
  bridge_id: string | null;
  bridge_boot: string | null;
  connected_at_ms: number | null;
  disconnected_at_ms: number | null;
  session_expires_at_ms: number | null;
  /** When the session's token was issued; null for a certificate. */
  session_issued_at_ms: number | null;
};

export type SessionColumns = Pick<
  DeviceRow,
  'epoch' | 'connection_id' | 'bridge_id' | 'bridge_boot' | 'session_expires_at_ms' | 'session_issued_at_ms'
>;

export class DeviceRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): DeviceRow[] {
    return this.#sql.all<DeviceRow>('SELECT * FROM device ORDER BY id');
  }

  /** Inserts a device or changes its type; the status of an existing device does not change. */
  put(turn: Turn, { id, type }: Pick<DeviceRow, 'id' | 'type'>): void {
    turn.write(
      `INSERT INTO device (id, type, status, status_at_ms) VALUES (?, ?, 'ACTIVE', ?)
       ON CONFLICT (id) DO UPDATE SET type = excluded.type`,
      id,
      type,
      turn.now,
    );
  }

  setStatus(
    turn: Turn,
    id: string,
    change: Pick<DeviceRow, 'status' | 'status_at_ms' | 'suspend_reason'>,
  ): void {
    turn.write(
      'UPDATE device SET status = ?, status_at_ms = ?, suspend_reason = ? WHERE id = ?',
      change.status,
      change.status_at_ms,
      change.suspend_reason,
      id,
    );
  }

  setLastKey(turn: Turn, id: string, version: number): void {
    turn.write('UPDATE device SET last_key_version = ? WHERE id = ?', version, id);
  }

  setLeaving(turn: Turn, id: string, to: string): void {
    turn.write('UPDATE device SET leaving = ? WHERE id = ?', to, id);
  }

  /** Limits the end of the session to `atMs`; an earlier end stays. */
  endSessionBy(turn: Turn, id: string, atMs: number): void {
    turn.write(
      'UPDATE device SET session_expires_at_ms = ? WHERE id = ? AND (session_expires_at_ms IS NULL OR session_expires_at_ms > ?)',
      atMs,
      id,
      atMs,
    );
  }

  setReportedStatus(turn: Turn, id: string, status: DeviceReportedStatus): void {
    turn.write('UPDATE device SET reported_status = ? WHERE id = ?', status, id);
  }

  /** Returns a new epoch; epochs are unique across all devices of the site. */
  mintEpoch(turn: Turn): number {
    return turn.writeReturning<{ epoch: number }>('UPDATE counters SET epoch = epoch + 1 RETURNING epoch')
      .epoch;
  }

  /** A connect clears a reported OFFLINE [C-3.10]. */
  openSession(turn: Turn, id: string, session: SessionColumns): void {
    turn.write(
      `UPDATE device SET epoch = ?, connection_id = ?, bridge_id = ?, bridge_boot = ?, connected_at_ms = ?,
         session_expires_at_ms = ?, session_issued_at_ms = ?, disconnected_at_ms = NULL,
         reported_status = CASE reported_status WHEN 'OFFLINE' THEN NULL ELSE reported_status END WHERE id = ?`,
      session.epoch,
      session.connection_id,
      session.bridge_id,
      session.bridge_boot,
      turn.now,
      session.session_expires_at_ms,
      session.session_issued_at_ms,
      id,
    );
  }

  /** Ends the session of this epoch; a newer session is not affected. */
  closeSession(turn: Turn, id: string, epoch: number, endedAtMs: number): void {
    turn.write(
      `UPDATE device SET connection_id = NULL, session_expires_at_ms = NULL, disconnected_at_ms = ?
       WHERE id = ? AND epoch = ? AND connection_id IS NOT NULL`,
      endedAtMs,
      id,
      epoch,
    );
  }
}
