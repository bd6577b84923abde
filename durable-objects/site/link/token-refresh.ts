/**
 * New tokens for connected devices [C-3.12]: sent at 80 % of a token's life, repeated while the device does not
 * acknowledge one, and signed again each time: no token is stored.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn } from '../../object/turn.ts';
import { signDeviceToken } from '../../secrets/device-tokens.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceRow } from '../device/rows.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import type { DeviceAck } from '../dispatch/dispatches.ts';
import type { CommandSender } from '../dispatch/sender.ts';
import type { Outbox } from '../event/outbox.ts';
import { statusRow } from '../event/registry-rows.ts';

const REFRESH_AT = 0.8;
/** Within the rest of the old token's life. */
const TRIES = 3;

export interface TokenRefreshHost {
  clock: Pick<Clock, 'now'>;
  devices: Devices;
  sessions: DeviceSessions;
  sender: CommandSender;
  outbox: Outbox;
  tokenKeys: string;
  /** Keeps the object awake while a token is signed. */
  keepAlive(work: Promise<void>): void;
}

export class TokenRefresh implements DueSource {
  readonly name = 'tokens';
  readonly #host: TokenRefreshHost;

  constructor(host: TokenRefreshHost) {
    this.#host = host;
  }

  dueMs(): number | undefined {
    const now = this.#host.clock.now();
    return earliest(this.#host.devices.all().map((device) => this.#dueMs(device, now)));
  }

  run(turn: Turn): void {
    for (const device of this.#host.devices.all()) {
      const dueMs = this.#dueMs(device, turn.now);
      if (dueMs !== undefined && dueMs <= turn.now) this.#refresh(turn, device);
    }
  }

  /** Returns whether the ack answers a new token. A device that answered FAILED is sent another one. */
  noteAck({ deviceId, cmdId, status }: DeviceAck): boolean {
    const { sessions } = this.#host;
    const refresh = sessions.refreshOf(deviceId);
    if (refresh?.cmdId !== cmdId) return false;
    const taken = status !== 'FAILED';
    if (refresh.taken !== taken) sessions.setRefresh(deviceId, { ...refresh, taken });
    return true;
  }

  /** A token that is due for a device that is not subscribed waits until it is. */
  #dueMs(device: DeviceRow, now: number): number | undefined {
    const dueMs = this.#refreshAtMs(device);
    if (dueMs === undefined || dueMs > now) return dueMs;
    return this.#host.sessions.isLive(device.id, now) ? dueMs : undefined;
  }

  #refreshAtMs({
    id,
    session_issued_at_ms: issuedAtMs,
    session_expires_at_ms: expiresAtMs,
  }: DeviceRow): number | undefined {
    if (issuedAtMs === null || expiresAtMs === null) return undefined;
    const { tries = 0, taken = false } = this.#host.sessions.refreshOf(id) ?? {};
    if (taken || tries >= TRIES) return undefined;
    const lifeMs = expiresAtMs - issuedAtMs;
    return issuedAtMs + REFRESH_AT * lifeMs + (tries * (1 - REFRESH_AT) * lifeMs) / TRIES;
  }

  #refresh(turn: Turn, device: DeviceRow): void {
    const { sessions, outbox, tokenKeys, keepAlive } = this.#host;
    const { session_issued_at_ms: issuedAtMs, session_expires_at_ms: expiresAtMs } = device;
    const lifetimeSeconds = Math.round(((expiresAtMs ?? 0) - (issuedAtMs ?? 0)) / 1_000);
    const cmdId = crypto.randomUUID();
    const tries = (sessions.refreshOf(device.id)?.tries ?? 0) + 1;
    const columns = { tokenExpiresAtMs: (Math.floor(turn.now / 1_000) + lifetimeSeconds) * 1_000 };
    outbox.emit(turn, statusRow('device', device.id, columns, turn.now));
    turn.remember(() => sessions.setRefresh(device.id, { tries, cmdId }));
    const signed = () => signDeviceToken(tokenKeys, device.id, lifetimeSeconds, turn.now);
    turn.send(() => keepAlive(this.#send(device, cmdId, signed())));
  }

  /** A token that could not be sent is sent with the next try. */
  async #send(
    { id, epoch }: DeviceRow,
    cmdId: string,
    signed: ReturnType<typeof signDeviceToken>,
  ): Promise<void> {
    const { devices, sender } = this.#host;
    try {
      const { token, expiresAtMs } = await signed;
      const payloadText = signableJson({ token, expiresAt: formatInstant(expiresAtMs) });
      const device = devices.find(id);
      // The device has reconnected with another token, or may no longer connect.
      if (device?.status !== 'ACTIVE' || device.epoch !== epoch) return;
      sender.send(id, { cmdId, action: 'TOKEN_REFRESH', payloadText });
    } catch (error) {
      console.error('token not refreshed', { deviceId: id, reason: reasonOf(error) });
    }
  }
}
