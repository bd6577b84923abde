/** Device secrets, opened once a wake: the key that a device signs with, in the two forms that it may use [C-3.7]. */
import { hexBytes } from '../../secrets/hmac.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import type { DeviceRow } from './rows.ts';

export interface DeviceSecret {
  /** 64 hex characters. */
  text: string;
  /** The 32 bytes that they spell. */
  bytes: Uint8Array;
}

export class DeviceSecrets {
  readonly #box: SecretBox;
  readonly #opened = new Map<string, DeviceSecret>();

  constructor(box: SecretBox) {
    this.#box = box;
  }

  seal(deviceId: string, hmacSecret: string): string {
    this.#opened.delete(deviceId);
    return this.#box.seal(purpose(deviceId), hmacSecret);
  }

  of(device: DeviceRow): DeviceSecret {
    const known = this.#opened.get(device.id);
    if (known) return known;
    const text = this.#box.open(purpose(device.id), device.secret_sealed);
    const secret = { text, bytes: hexBytes(text) };
    this.#opened.set(device.id, secret);
    return secret;
  }

  /** The key that commands to the device are signed with: in the form that it last proved. */
  commandKey(device: DeviceRow): string | Uint8Array {
    return this.of(device)[device.secret_form];
  }
}

function purpose(deviceId: string): string {
  return `device:${deviceId}`;
}
