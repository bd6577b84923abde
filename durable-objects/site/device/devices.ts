/** The devices of a site, all in memory: who may connect, in which session each is, what it last said of itself. */
import type { DeviceReportedStatus } from '../../../protocol/enums.ts';
import type { Turn } from '../../object/turn.ts';
import type { DeviceGrant } from '../../rpc.ts';
import type { DeviceRow, DeviceRows, SessionColumns } from './rows.ts';
import type { DeviceSecrets } from './secrets.ts';

export class Devices {
  readonly #rows: DeviceRows;
  readonly #secrets: DeviceSecrets;
  #devices: Map<string, DeviceRow>;

  constructor(rows: DeviceRows, secrets: DeviceSecrets) {
    this.#rows = rows;
    this.#secrets = secrets;
    this.#devices = this.#read();
  }

  all(): DeviceRow[] {
    return [...this.#devices.values()];
  }

  find(id: string): DeviceRow | undefined {
    return this.#devices.get(id);
  }

  /** Takes a provisioned device in. The same grant again changes nothing; a decommissioned device stays so. */
  adopt(turn: Turn, grant: DeviceGrant): void {
    const known = this.find(grant.deviceId);
    if (known?.status === 'DECOMMISSIONED') return;
    const isSameSecret = known !== undefined && this.#secrets.of(known).text === grant.hmacSecret;
    if (isSameSecret && known.type === grant.type) return;
    const sealed = isSameSecret ? known.secret_sealed : this.#secrets.seal(grant.deviceId, grant.hmacSecret);
    this.#rows.put(turn, {
      id: grant.deviceId,
      type: grant.type,
      secret_sealed: sealed,
      secret_form: isSameSecret ? known.secret_form : 'text',
    });
    this.#changed(turn);
  }

  setStatus(turn: Turn, id: string, status: DeviceRow['status']): void {
    if (status === 'DECOMMISSIONED') this.#rows.decommission(turn, id);
    else this.#rows.setStatus(turn, id, status);
    this.#changed(turn);
  }

  setSecretForm(turn: Turn, id: string, form: DeviceRow['secret_form']): void {
    this.#rows.setSecretForm(turn, id, form);
    this.#changed(turn);
  }

  setReportedStatus(turn: Turn, id: string, status: DeviceReportedStatus): void {
    if (this.find(id)?.reported_status === status) return;
    this.#rows.setReportedStatus(turn, id, status);
    this.#changed(turn);
  }

  /** Opens a session under an epoch of its own, which it returns. */
  openSession(turn: Turn, id: string, session: Omit<SessionColumns, 'epoch'>): number {
    const epoch = this.#rows.mintEpoch(turn);
    this.#rows.openSession(turn, id, { ...session, epoch });
    this.#changed(turn);
    return epoch;
  }

  /** Ends the session that a device is in, as of a moment. */
  closeSession(turn: Turn, id: string, endedAtMs: number): void {
    const device = this.find(id);
    if (!device?.connection_id) return;
    this.#rows.closeSession(turn, id, device.epoch, endedAtMs);
    this.#changed(turn);
  }

  countDropped(turn: Turn, id: string, reason: string, count: number): void {
    this.#rows.countDropped(turn, id, reason, count);
  }

  dropped(id: string): { reason: string; count: number }[] {
    return this.#rows.dropped(id);
  }

  /** For the rest of the turn they are as they were just written. */
  #changed(turn: Turn): void {
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
