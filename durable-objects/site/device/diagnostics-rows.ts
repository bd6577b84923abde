/**
 * Diagnostics for operators [C-3.8]: counts of dropped messages, the latest of them and the latest logins, in
 * rings.
 */
import type { DeviceDiagnostics } from '../../../protocol/device-record.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type DropRow = {
  at_ms: number;
  topic: string;
  reason: string;
  detail: string;
  expected: string | null;
};

export type ConnectRow = {
  at_ms: number;
  address: string;
  outcome: 'ACCEPTED' | 'REFUSED';
  reason: string | null;
};

type Ring = 'recent_drop' | 'recent_connect' | 'failed_login';

export class DiagnosticsRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** What the device's operator reads: dropped messages and login attempts [C-3.8]. */
  read(deviceId: string): DeviceDiagnostics {
    return {
      drops: Object.fromEntries(this.dropped(deviceId).map(({ reason, count }) => [reason, count])),
      recent: this.drops(deviceId).map(({ at_ms: atMs, topic, reason, detail, expected }) => ({
        at: formatInstant(atMs),
        topic,
        reason,
        detail,
        ...(expected === null ? {} : { expected }),
      })),
      connects: this.connects(deviceId).map(({ at_ms: atMs, address, outcome, reason }) => ({
        at: formatInstant(atMs),
        address,
        outcome,
        ...(reason === null ? {} : { reason }),
      })),
    };
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
    return this.#sql.all(
      'SELECT reason, count FROM dropped_message WHERE device_id = ? ORDER BY reason',
      deviceId,
    );
  }

  addDrop(turn: Turn, deviceId: string, drop: Omit<DropRow, 'at_ms'>): void {
    const sequence = this.#next('recent_drop', deviceId);
    turn.write(
      `INSERT OR REPLACE INTO recent_drop (device_id, slot, sequence, at_ms, topic, reason, detail, expected)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      deviceId,
      sequence % LIMIT.diagnosticsEntries,
      sequence,
      turn.now,
      drop.topic,
      drop.reason,
      drop.detail,
      drop.expected,
    );
  }

  addConnect(turn: Turn, deviceId: string, connect: Omit<ConnectRow, 'at_ms'>): void {
    const sequence = this.#next('recent_connect', deviceId);
    turn.write(
      `INSERT OR REPLACE INTO recent_connect (device_id, slot, sequence, at_ms, address, outcome, reason)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      deviceId,
      sequence % LIMIT.diagnosticsEntries,
      sequence,
      turn.now,
      connect.address,
      connect.outcome,
      connect.reason,
    );
  }

  /** Newest first. */
  drops(deviceId: string): DropRow[] {
    return this.#sql.all<DropRow>(
      'SELECT at_ms, topic, reason, detail, expected FROM recent_drop WHERE device_id = ? ORDER BY sequence DESC',
      deviceId,
    );
  }

  /** Newest first. */
  connects(deviceId: string): ConnectRow[] {
    return this.#sql.all<ConnectRow>(
      'SELECT at_ms, address, outcome, reason FROM recent_connect WHERE device_id = ? ORDER BY sequence DESC',
      deviceId,
    );
  }

  /**
   * Adds a failed login that counts toward suspension. Returns the address of each failure since `sinceMs`.
   */
  addFailure(turn: Turn, deviceId: string, address: string, sinceMs: number): string[] {
    const sequence = this.#next('failed_login', deviceId);
    turn.write(
      'INSERT OR REPLACE INTO failed_login (device_id, slot, sequence, at_ms, address) VALUES (?, ?, ?, ?, ?)',
      deviceId,
      sequence % LIMIT.authFailures,
      sequence,
      turn.now,
      address,
    );
    return this.#sql
      .all<{ address: string }>(
        'SELECT address FROM failed_login WHERE device_id = ? AND at_ms > ? ORDER BY sequence',
        deviceId,
        sinceMs,
      )
      .map((row) => row.address);
  }

  /** Resets the count toward suspension. */
  clearFailures(turn: Turn, deviceId: string): void {
    turn.write('DELETE FROM failed_login WHERE device_id = ?', deviceId);
  }

  #next(ring: Ring, deviceId: string): number {
    const row = this.#sql.one<{ last: number | null }>(
      `SELECT max(sequence) AS last FROM ${ring} WHERE device_id = ?`,
      deviceId,
    );
    return (row?.last ?? 0) + 1;
  }
}
