/**
 * Sends commands to devices, signed with the key that the device used last, or with its newest one if that key
 * is no longer valid [C-3.7].
 */
import { commandMessage } from '../../../protocol/device-message.ts';
import { commandSigningString } from '../../../protocol/signing.ts';
import type { Clock } from '../../object/clock.ts';
import { hmacHex } from '../../secrets/hmac.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceSecrets } from '../device/secrets.ts';
import type { DeviceSessions } from '../device/sessions.ts';

export interface SignedCommand {
  cmdId: string;
  action: string;
  payloadText: string;
}

export class CommandSender {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #devices: Devices;
  readonly #secrets: DeviceSecrets;
  readonly #sessions: DeviceSessions;

  constructor(clock: Pick<Clock, 'now'>, devices: Devices, secrets: DeviceSecrets, sessions: DeviceSessions) {
    this.#clock = clock;
    this.#devices = devices;
    this.#secrets = secrets;
    this.#sessions = sessions;
  }

  /**
   * Must be called after the commit. Each call signs the command again with the current time as `ts` [C-3.9].
   * Does nothing if the device no longer exists, has no valid secret or has no open socket.
   */
  send(deviceId: string, { cmdId, action, payloadText }: SignedCommand): void {
    const device = this.#devices.find(deviceId);
    const ts = this.#clock.now();
    const key = device && this.#secrets.commandKey(device, ts);
    if (key === undefined) return;
    const sig = hmacHex(key, commandSigningString(deviceId, cmdId, ts, action, payloadText));
    const payload = commandMessage({ cmdId, ts, action, payloadText, sig });
    this.#sessions.send(deviceId, [{ kind: 'command', payload }]);
  }
}
