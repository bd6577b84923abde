/** The keys that devices sign with, and checks of the secret and key form that signed a command. */
import { hmacHex, verifyHmac } from '../../../durable-objects/secrets/hmac.ts';
import { signableJson } from '../../../protocol/compact-json.ts';
import { ackSigningString, commandSigningString } from '../../../protocol/signing.ts';
import { type DeviceTestLink, telemetryMessage } from './links.ts';
import { type DeviceCredential, droppedOf, publish, type ReceivedCommand } from './site-devices.ts';

export type SecretForm = 'text' | 'bytes';

/** The key that a device derives from its secret. */
export function keyOf(hmacSecret: string, form: SecretForm = 'text'): string | Uint8Array {
  if (form === 'text') return hmacSecret;
  return Uint8Array.from(hmacSecret.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
}

/** Whether a command is signed with that secret, in that form. */
export function isSignedWith(
  deviceId: string,
  { cmdId, ts, action, payload, sig }: ReceivedCommand,
  hmacSecret: string,
  form: SecretForm = 'text',
): boolean {
  const signed = commandSigningString(deviceId, cmdId, ts, action, signableJson(payload));
  return verifyHmac(keyOf(hmacSecret, form), signed, sig);
}

/** Sends an ack that is signed with that secret; true if it was not dropped. */
export async function ackWith(
  siteId: string,
  link: DeviceTestLink,
  deviceId: string,
  hmacSecret: string,
  form: SecretForm = 'text',
): Promise<boolean> {
  const { SIGNATURE: before = 0 } = await droppedOf(siteId, deviceId);
  const ts = Date.now();
  const sig = hmacHex(keyOf(hmacSecret, form), ackSigningString(deviceId, 'none', ts, 'RECEIVED'));
  await publish(link, JSON.stringify({ cmdId: 'none', status: 'RECEIVED', ts, sig }), 'ack');
  const { SIGNATURE: after = 0 } = await droppedOf(siteId, deviceId);
  return after === before;
}

/** Sends telemetry with a nonce, and returns why it was dropped; undefined if it was not. */
export async function dropOf(
  siteId: string,
  link: DeviceTestLink,
  device: DeviceCredential,
  nonce: string,
  dataText = '{"gridPowerKw":1}',
): Promise<string | undefined> {
  const before = await droppedOf(siteId, device.id);
  await publish(link, telemetryMessage(device, dataText, { nonce }));
  const after = await droppedOf(siteId, device.id);
  return Object.keys(after).find((reason) => after[reason] !== before[reason]);
}
