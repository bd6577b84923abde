/** The devices of a site, all in memory: which may connect, their sessions and their last reported status. */
import type { DeviceReportedStatus } from '../../../protocol/enums.ts';
import type { Turn } from '../../object/turn.ts';
import type { DeviceGrant } from '../../rpc.ts';
import type { DeviceRow, DeviceRows, SessionColumns } from './rows.ts';
import type { DeviceSecrets, SigningKey } from './secrets.ts';

/** The version of a grant that has none. */
const FIRST_VERSION = 1;

export class Devices {
  readonly #rows: DeviceRows;
  readonly #secrets: DeviceSecrets;
  #devices: Map<string, DeviceRow>;

  constructor(rows: DeviceRows, secrets: DeviceSecrets) {
    this.#rows = rows;
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
  adopt(turn: Turn, { deviceId, type, hmacSecret, version = FIRST_VERSION }: DeviceGrant): void {
    if (this.#devices.get(deviceId)?.status === 'DECOMMISSIONED') return;
    if (!this.#secrets.replace(turn, deviceId, hmacSecret, version)) return;
    this.#rows.put(turn, { id: deviceId, type });
    this.changed(turn);
  }

  /** Returns the time of the change, always later than that of any earlier status. */
  setStatus(
    turn: Turn,
    device: DeviceRow,
    status: DeviceRow['status'],
    reason: string | null = null,
  ): number {
    const atMs = Math.max(turn.now, device.status_at_ms + 1);
    this.#rows.setStatus(turn, device.id, {
      status,
      status_at_ms: atMs,
      suspend_reason: status === 'SUSPENDED' ? reason : null,
    });
    if (status === 'DECOMMISSIONED') this.#secrets.destroy(turn, device.id);
    this.changed(turn);
    return atMs;
  }

  setType(turn: Turn, { id, type: before }: DeviceRow, type: DeviceRow['type']): void {
    if (before === type) return;
    this.#rows.put(turn, { id, type });
    this.changed(turn);
  }

  /** Stores which key the device signed with last: commands to it are signed with the same one [C-3.7]. */
  setLastKey(
    turn: Turn,
    { id, last_key_version }: DeviceRow,
    key: Pick<SigningKey, 'version' | 'form'>,
  ): void {
    this.#secrets.setForm(turn, id, key);
    if (last_key_version === key.version) return;
    this.#rows.setLastKey(turn, id, key.version);
    this.changed(turn);
  }

  setReportedStatus(turn: Turn, id: string, status: DeviceReportedStatus): void {
    if (this.find(id)?.reported_status === status) return;
    this.#rows.setReportedStatus(turn, id, status);
    this.changed(turn);
  }

  setLeaving(turn: Turn, id: string, to: string): void {
    this.#rows.setLeaving(turn, id, to);
    this.changed(turn);
  }

  /** Opens a session; returns its new epoch. */
  openSession(turn: Turn, id: string, session: Omit<SessionColumns, 'epoch'>): number {
    const epoch = this.#rows.mintEpoch(turn);
    this.#rows.openSession(turn, id, { ...session, epoch });
    this.changed(turn);
    return epoch;
  }

  /** Limits the device's session, if any, to end at `atMs`. */
  endSessionBy(turn: Turn, id: string, atMs: number): void {
    this.#rows.endSessionBy(turn, id, atMs);
    this.changed(turn);
  }

  /** Ends the device's session, if any, with `endedAtMs` as its end. */
  closeSession(turn: Turn, id: string, endedAtMs: number): void {
    const device = this.#devices.get(id);
    if (!device?.connection_id) return;
    this.#rows.closeSession(turn, id, device.epoch, endedAtMs);
    this.changed(turn);
  }

  /** Reads the rows again after a write; a rollback restores the previous ones. */
  changed(turn: Turn): void {
    const before = this.#devices;
    turn.undo(() => {
      this.#devices = before;
    });
    this.#devices = this.#read();
  }

  #read(): Map<string, DeviceRow> {
    return new Map(this.#rows.all().map((device) => [device.id, device]));
  }
}
