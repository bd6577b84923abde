/** The devices of a site, all in memory: which may connect, their sessions and their last reported status. */
import type { DeviceReportedStatus } from '../../../protocol/enums.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { DeviceGrant } from '../../rpc.ts';
import { type DeviceRow, tokensNotBeforeMs } from './rows.ts';
import type { DeviceSecrets, SigningKey } from './secrets.ts';

type Session = Pick<
  DeviceRow,
  'connection_id' | 'bridge_id' | 'bridge_boot' | 'session_expires_at_ms' | 'session_issued_at_ms'
>;

export class Devices {
  readonly #sql: Sql;
  readonly #secrets: DeviceSecrets;
  #devices: Map<string, DeviceRow>;

  constructor(sql: Sql, secrets: DeviceSecrets) {
    this.#sql = sql;
    this.#secrets = secrets;
    this.#devices = this.#read();
  }

  /** All devices except those that are moving to another object. */
  all(): DeviceRow[] {
    return [...this.#devices.values()].filter(({ leaving }) => leaving === null);
  }

  find(id: string): DeviceRow | undefined {
    const device = this.#devices.get(id);
    return device?.leaving === null ? device : undefined;
  }

  /** Whether the device is moving to another object. */
  isLeaving(id: string): boolean {
    const device = this.#devices.get(id);
    return device !== undefined && device.leaving !== null;
  }

  /** Ids of the devices that are moving to another object and still have rows here. */
  allLeaving(): string[] {
    return [...this.#devices.values()].flatMap(({ id, leaving }) => (leaving === null ? [] : [id]));
  }

  /**
   * Adds a device with its secret. An equal or older grant changes nothing; a decommissioned device stays
   * decommissioned.
   */
  adopt(turn: Turn, { deviceId, type, hmacSecret, version }: DeviceGrant): void {
    if (this.#devices.get(deviceId)?.status === 'DECOMMISSIONED') return;
    if (!this.#secrets.replace(turn, deviceId, hmacSecret, version)) return;
    this.#write(
      turn,
      `INSERT INTO device (id, type, status, status_at_ms) VALUES (?, ?, 'ACTIVE', ?)
       ON CONFLICT (id) DO UPDATE SET type = excluded.type`,
      ...[deviceId, type, turn.now],
    );
  }

  /** Returns the time of the change, always later than that of any earlier status. */
  setStatus(turn: Turn, device: DeviceRow, status: DeviceRow['status'], reason: string | null): number {
    const { id } = device;
    const atMs = Math.max(turn.now, device.status_at_ms + 1);
    if (status === 'DECOMMISSIONED') this.#secrets.destroy(turn, id);
    const suspendReason = status === 'SUSPENDED' ? reason : null;
    this.#set(turn, id, { status, status_at_ms: atMs, suspend_reason: suspendReason });
    return atMs;
  }

  setType(turn: Turn, { id, type: before }: DeviceRow, type: DeviceRow['type']): void {
    if (before !== type) this.#set(turn, id, { type });
  }

  /** Stores which key the device signed with last: commands to it are signed with the same one [C-3.7]. */
  setLastKey(
    turn: Turn,
    { id, last_key_version }: DeviceRow,
    key: Pick<SigningKey, 'version' | 'form'>,
  ): void {
    this.#secrets.setForm(turn, id, key);
    if (last_key_version !== key.version) this.#set(turn, id, { last_key_version: key.version });
  }

  /** As `setLastKey`, for a message of the device's session. */
  setSessionKey(turn: Turn, device: DeviceRow, key: Pick<SigningKey, 'version' | 'form'>): void {
    this.#secrets.setForm(turn, device.id, key);
    const { version } = key;
    if (device.last_key_version !== version || device.session_key_version !== version)
      this.#set(turn, device.id, { last_key_version: version, session_key_version: version });
  }

  /** Ends the tokens that were issued before now. Returns the time that a valid token must not be older than. */
  endTokens(turn: Turn, device: DeviceRow): number {
    const notBeforeMs = Math.max(turn.now, device.tokens_not_before_ms);
    this.#set(turn, device.id, {
      tokens_not_before_ms: notBeforeMs,
      next_tokens_not_before_ms: null,
      next_tokens_from_ms: null,
    });
    return notBeforeMs;
  }

  /**
   * At `fromMs`, ends the tokens that were issued before now. If an earlier call still waits for another
   * `fromMs`, the tokens that it was for end now.
   */
  endTokensLater(turn: Turn, device: DeviceRow, fromMs: number): void {
    const isWaiting = device.next_tokens_from_ms === fromMs;
    this.#set(turn, device.id, {
      tokens_not_before_ms: tokensNotBeforeMs(device, isWaiting ? turn.now : Number.POSITIVE_INFINITY),
      next_tokens_not_before_ms: turn.now,
      next_tokens_from_ms: fromMs,
    });
  }

  setReportedStatus(turn: Turn, id: string, status: DeviceReportedStatus): void {
    if (this.find(id)?.reported_status !== status) this.#set(turn, id, { reported_status: status });
  }

  setLeaving(turn: Turn, id: string, to: string): void {
    this.#set(turn, id, { leaving: to });
  }

  /**
   * Opens a session; returns its new epoch, unique across all devices of the site. A connect clears a reported OFFLINE
   * [C-3.10].
   */
  openSession(turn: Turn, id: string, session: Session): number {
    const { epoch } = turn.writeReturning<{ epoch: number }>(
      'UPDATE counters SET epoch = epoch + 1 RETURNING epoch',
    );
    const reported = this.#devices.get(id)?.reported_status ?? null;
    const cleared = reported === 'OFFLINE' ? null : reported;
    const times = { connected_at_ms: turn.now, disconnected_at_ms: null };
    const opened = { ...session, session_key_version: null, epoch, ...times, reported_status: cleared };
    this.#set(turn, id, opened);
    return epoch;
  }

  /** Ends the device's session, if any, at `atMs` at the latest; an earlier end is kept. */
  endSessionBy(turn: Turn, id: string, atMs: number): void {
    const device = this.#devices.get(id);
    if ((device?.session_expires_at_ms ?? Number.POSITIVE_INFINITY) > atMs)
      this.#set(turn, id, { session_expires_at_ms: atMs });
  }

  /** Ends the device's session, if any, with `endedAtMs` as its end. */
  closeSession(turn: Turn, id: string, endedAtMs: number): void {
    if (!this.#devices.get(id)?.connection_id) return;
    this.#set(turn, id, {
      connection_id: null,
      session_expires_at_ms: null,
      disconnected_at_ms: endedAtMs,
    });
  }

  /** Reads the rows again after a write; a rollback restores the previous ones. */
  changed(turn: Turn): void {
    const before = this.#devices;
    turn.undo(() => {
      this.#devices = before;
    });
    this.#devices = this.#read();
  }

  #set(turn: Turn, id: string, change: Partial<DeviceRow>): void {
    const columns = Object.keys(change).map((column) => `${column} = ?`);
    this.#write(turn, `UPDATE device SET ${columns.join(', ')} WHERE id = ?`, ...Object.values(change), id);
  }

  #write(turn: Turn, ...statement: Parameters<Turn['write']>): void {
    turn.write(...statement);
    this.changed(turn);
  }

  #read(): Map<string, DeviceRow> {
    const rows = this.#sql.all<DeviceRow>('SELECT * FROM device ORDER BY id');
    return new Map(rows.map((device) => [device.id, device]));
  }
}
