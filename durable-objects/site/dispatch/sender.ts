/**
 * Sends commands to devices, signed with the key that the device used last, or with its newest one if that key
 * is no longer valid [C-3.7]. The commands of one turn for one device travel in one message.
 */
import { commandMessage } from '../../../protocol/device-message.ts';
import type { DeviceLinkDown } from '../../../protocol/link/device.ts';
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
  /** The commands of the current turn, by device. */
  readonly #signed = new Map<string, DeviceLinkDown[]>();

  constructor(clock: Pick<Clock, 'now'>, devices: Devices, secrets: DeviceSecrets, sessions: DeviceSessions) {
    this.#clock = clock;
    this.#devices = devices;
    this.#secrets = secrets;
    this.#sessions = sessions;
  }

  /**
   * Sends a command with the current time as its `ts` [C-3.9]. Must be called after the commit. Does nothing if the
   * device no longer exists, has no valid secret or has no open socket.
   */
  send(deviceId: string, command: SignedCommand): void {
    this.add(deviceId, command);
    this.flush();
  }

  /** Like `send`, but `flush`, which follows the sends of each turn, sends the command with the others of the turn. */
  add(deviceId: string, { cmdId, action, payloadText }: SignedCommand): void {
    const device = this.#devices.find(deviceId);
    const ts = this.#clock.now();
    const key = device && this.#secrets.commandKey(device, ts);
    if (key === undefined) return;
    const sig = hmacHex(key, commandSigningString(deviceId, cmdId, ts, action, payloadText));
    const frame = {
      kind: 'command' as const,
      payload: commandMessage({ cmdId, ts, action, payloadText, sig }),
    };
    const frames = this.#signed.get(deviceId);
    if (frames) frames.push(frame);
    else this.#signed.set(deviceId, [frame]);
  }

  flush(): void {
    for (const [deviceId, frames] of this.#signed) this.#sessions.send(deviceId, frames);
    this.#signed.clear();
  }
}
