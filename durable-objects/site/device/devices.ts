/** The devices of a site, all in memory: who may connect, in which session each is, what it last said of itself. */
import type { DeviceReportedStatus } from '../../../protocol/enums.ts';
import type { Turn } from '../../object/turn.ts';
import type { DeviceGrant } from '../../rpc.ts';
import type { DeviceRow, DeviceRows, SessionColumns } from './rows.ts';
import type { DeviceSecrets, SigningKey } from './secrets.ts';

/** A version of a grant that comes without one. */
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

  /** Those that are here: one that leaves is not. */
  all(): DeviceRow[] {
    return [...this.#devices.values()].filter(({ leaving }) => leaving === null);
  }

  find(id: string): DeviceRow | undefined {
    const device = this.#devices.get(id);
    return device?.leaving === null ? device : undefined;
  }

  /** It was here, and is on its way to another object. */
  isLeaving(id: string): boolean {
    const device = this.#devices.get(id);
    return device !== undefined && device.leaving !== null;
  }

  /** Those that have left something behind. */
  allLeaving(): string[] {
    return [...this.#devices.values()].flatMap(({ id, leaving }) => (leaving === null ? [] : [id]));
  }

  /** Takes a device in with its secret. The same grant, or an older one, changes nothing; a decommissioned device stays so. */
  adopt(turn: Turn, { deviceId, type, hmacSecret, version = FIRST_VERSION }: DeviceGrant): void {
    if (this.#devices.get(deviceId)?.status === 'DECOMMISSIONED') return;
    if (!this.#secrets.replace(turn, deviceId, hmacSecret, version)) return;
    this.#rows.put(turn, { id: deviceId, type });
    this.changed(turn);
  }

  /** Returns since when it is so: later than any status that it had. */
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

  /** The key that it signs with now: commands to it are signed with the same [C-3.7]. */
  setProved(
    turn: Turn,
    { id, proved_version }: DeviceRow,
    proved: Pick<SigningKey, 'version' | 'form'>,
  ): void {
    this.#secrets.setForm(turn, id, proved);
    if (proved_version === proved.version) return;
    this.#rows.setProved(turn, id, proved.version);
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

  /** Opens a session under an epoch of its own, which it returns. */
  openSession(turn: Turn, id: string, session: Omit<SessionColumns, 'epoch'>): number {
    const epoch = this.#rows.mintEpoch(turn);
    this.#rows.openSession(turn, id, { ...session, epoch });
    this.changed(turn);
    return epoch;
  }

  /** Its session, if it is in one, goes on until then at most. */
  endSessionBy(turn: Turn, id: string, atMs: number): void {
    this.#rows.endSessionBy(turn, id, atMs);
    this.changed(turn);
  }

  /** Ends the session that a device is in, as of a moment. */
  closeSession(turn: Turn, id: string, endedAtMs: number): void {
    const device = this.#devices.get(id);
    if (!device?.connection_id) return;
    this.#rows.closeSession(turn, id, device.epoch, endedAtMs);
    this.changed(turn);
  }

  /** For the rest of the turn they are as they were just written. */
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
