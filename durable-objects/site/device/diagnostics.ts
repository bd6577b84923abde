/**
 * Diagnostics for operators [C-3.8]: counts of dropped messages, the latest of them and the latest logins, in
 * rings.
 */
import type { DeviceDiagnostics } from '../../../protocol/device-record.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

type DropRow = {
  at_ms: number;
  topic: string;
  reason: string;
  detail: string;
  expected: string | null;
};

type ConnectRow = {
  at_ms: number;
  address: string;
  outcome: 'ACCEPTED' | 'REFUSED';
  reason: string | null;
};

/**
 * The length of each ring. A ring holds the newest entries: the slot of an entry is its sequence modulo the
 * length.
 */
const RINGS = {
  recent_drop: LIMIT.diagnosticsEntries,
  recent_connect: LIMIT.diagnosticsEntries,
  failed_login: LIMIT.authFailures,
};

/** What telemetry knows about the accepted messages of a device. */
interface AcceptedMessages {
  /** What is probably wrong in them. */
  hintsOf(deviceId: string): string[];
  /** The last value of each signal in the last day, by the name that the device uses. */
  readingsOf(deviceId: string): Record<string, number>;
}

export class Diagnostics {
  readonly #sql: Sql;
  readonly #accepted: AcceptedMessages;

  constructor(sql: Sql, accepted: AcceptedMessages) {
    this.#sql = sql;
    this.#accepted = accepted;
  }

  /** What the device's operator reads: hints, dropped messages and login attempts [C-3.8]. */
  read(deviceId: string): DeviceDiagnostics & { readings: Record<string, number> } {
    const dropped = this.#sql.all<{ reason: string; count: number }>(
      'SELECT reason, count FROM dropped_message WHERE device_id = ? ORDER BY reason',
      deviceId,
    );
    return {
      hints: this.#accepted.hintsOf(deviceId),
      readings: this.#accepted.readingsOf(deviceId),
      drops: Object.fromEntries(dropped.map(({ reason, count }) => [reason, count])),
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
      ...[deviceId, reason, count, turn.now],
    );
  }

  addDrop(turn: Turn, deviceId: string, drop: Omit<DropRow, 'at_ms'>): void {
    this.#add(turn, 'recent_drop', deviceId, drop);
  }

  addConnect(turn: Turn, deviceId: string, connect: Omit<ConnectRow, 'at_ms'>): void {
    this.#add(turn, 'recent_connect', deviceId, connect);
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
    this.#add(turn, 'failed_login', deviceId, { address });
    const since = this.#sql.all<{ address: string }>(
      'SELECT address FROM failed_login WHERE device_id = ? AND at_ms > ? ORDER BY sequence',
      deviceId,
      sinceMs,
    );
    return since.map((row) => row.address);
  }

  /** Resets the count toward suspension. */
  clearFailures(turn: Turn, deviceId: string): void {
    turn.write('DELETE FROM failed_login WHERE device_id = ?', deviceId);
  }

  #add(turn: Turn, ring: keyof typeof RINGS, deviceId: string, entry: Record<string, SqlStorageValue>): void {
    const newest = this.#sql.one<{ last: number | null }>(
      `SELECT max(sequence) AS last FROM ${ring} WHERE device_id = ?`,
      deviceId,
    );
    const sequence = (newest?.last ?? 0) + 1;
    const row = { device_id: deviceId, slot: sequence % RINGS[ring], sequence, at_ms: turn.now, ...entry };
    turn.replace(ring, row);
  }
}
