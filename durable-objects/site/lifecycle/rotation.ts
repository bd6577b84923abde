/** The end of a device's old secrets and tokens, with a session that depends on them [C-3.3], [C-14.5]. */
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { AuditEntry } from '../../../registry/entries.ts';
import type { Turns } from '../../object/turn.ts';
import type { SecretRotation } from '../../rpc.ts';
import type { Devices } from '../device/devices.ts';
import { type DeviceRow, tokensNotBeforeMs } from '../device/rows.ts';
import type { DeviceSecrets } from '../device/secrets.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import { auditRow, statusRow, toRegistryWrite } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';
import type { Presence } from '../presence/presence.ts';

export interface RotationHost {
  turns: Turns;
  devices: Devices;
  secrets: DeviceSecrets;
  sessions: DeviceSessions;
  presence: Presence;
  outbox: Outbox;
}

export class Rotation {
  readonly #host: RotationHost;

  constructor(host: RotationHost) {
    this.#host = host;
  }

  /** Ends the tokens that were issued before now, with a session that was opened with one [C-14.5]. */
  endTokens(deviceId: string): number | undefined {
    const { devices, sessions, presence, turns } = this.#host;
    const device = devices.find(deviceId);
    if (device?.status !== 'ACTIVE') return undefined;
    return turns.run((turn) => {
      const notBeforeMs = devices.endTokens(turn, device);
      if (isOlder(device, notBeforeMs)) {
        sessions.cut(turn, deviceId, CLOSE_CODES.revoked, 'older tokens have ended', turn.now);
        presence.update(turn);
      }
      return notBeforeMs;
    });
  }

  /**
   * Stores a new secret; the previous one stays valid for the grace period, and tokens that were issued before
   * now until the secret that the device used last expires [C-3.3].
   */
  rotateSecret(
    deviceId: string,
    hmacSecret: string,
    audit: AuditEntry | undefined,
    endOthers = false,
  ): SecretRotation | undefined {
    const { devices, secrets, sessions, outbox, presence, turns } = this.#host;
    const device = devices.find(deviceId);
    if (device?.status !== 'ACTIVE') return undefined;
    return turns.run((turn) => {
      const { version, graceUntilMs, lastUsedUntilMs } = secrets.rotate(turn, device, hmacSecret, endOthers);
      if (endOthers) devices.endTokens(turn, device);
      else devices.endTokensLater(turn, device, lastUsedUntilMs);
      if (endOthers) {
        sessions.cut(turn, deviceId, CLOSE_CODES.revoked, 'older secrets have ended', turn.now);
        presence.update(turn);
      } else if (isOlder(device, tokensNotBeforeMs(devices.find(deviceId) ?? device, turn.now))) {
        sessions.cut(turn, deviceId, CLOSE_CODES.revoked, 'older tokens have ended', turn.now);
        presence.update(turn);
      } else if (isOlder(device, turn.now)) devices.endSessionBy(turn, deviceId, lastUsedUntilMs);
      const hmacGraceUntilMs = endOthers ? null : graceUntilMs;
      const columns = { hmacGraceUntilMs, updatedAtMs: turn.now };
      const rows = [statusRow('device', deviceId, columns, turn.now)];
      if (audit) rows.push(auditRow(`${audit.event}|${deviceId}|${version}`, audit, turn.now));
      outbox.emit(turn, ...rows);
      return { rotatedAtMs: turn.now, graceUntilMs: hmacGraceUntilMs, writes: rows.map(toRegistryWrite) };
    });
  }
}

/** Whether the device has a session that was opened with a token that was issued before `notBeforeMs`. */
function isOlder(
  { connection_id, session_issued_at_ms: issuedAtMs }: DeviceRow,
  notBeforeMs: number,
): boolean {
  return connection_id !== null && issuedAtMs !== null && issuedAtMs < notBeforeMs;
}
