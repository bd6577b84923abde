/** MQTT tokens, signed by the platform or by an attacker. */
import { type CompactJWSHeaderParameters, CompactSign, importJWK } from 'jose';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { renewalSigningString } from '../../../protocol/signing.ts';
import { anonymous } from './client.ts';
import type { DeviceCredential } from './site-devices.ts';
import { TOKEN_PRIVATE_KEY } from './tokens.ts';

type SigningKey = Parameters<CompactSign['sign']>[0];

/** Claims of a valid token; `changes` replaces some, and undefined removes one. */
export function tokenClaims(
  deviceId: string,
  changes: Record<string, unknown> = {},
): Record<string, unknown> {
  const nowSeconds = Math.floor(Date.now() / 1_000);
  return {
    iss: 'sitewire',
    aud: 'mqtt',
    sub: deviceId,
    iat: nowSeconds,
    exp: nowSeconds + 3_600,
    ...changes,
  };
}

/** A token with any claims, header and key; the default key is the platform's. */
export async function signToken(
  claims: unknown,
  options: { header?: CompactJWSHeaderParameters; key?: SigningKey } = {},
): Promise<string> {
  const key = options.key ?? (await importJWK(TOKEN_PRIVATE_KEY, 'EdDSA'));
  return await new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader(options.header ?? { alg: 'EdDSA' })
    .sign(key);
}

/** A valid token of a device, with the given claims replaced. */
export async function deviceToken(deviceId: string, changes: Record<string, unknown> = {}): Promise<string> {
  return await signToken(tokenClaims(deviceId, changes));
}

/** A token with exactly the given parts, without signing it. */
export function unsignedToken(header: unknown, claims: unknown, signature = ''): string {
  const encode = (value: unknown) =>
    btoa(JSON.stringify(value)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  return `${encode(header)}.${encode(claims)}.${signature}`;
}

export interface Renewal {
  ts: number;
  nonce: string;
  sig: string;
}

/** A valid request of a device for a new token, with some fields replaced before it is signed. */
export function renewal(device: DeviceCredential, changes: Partial<Renewal> = {}): Renewal {
  const { ts = Date.now(), nonce = crypto.randomUUID() } = changes;
  const sig = hmacHex(device.hmacSecret, renewalSigningString(device.id, ts, nonce));
  return { ts, nonce, sig, ...changes };
}

/** `POST /devices/{id}/mqtt-token/renew`. */
export function renew(id: string, body: unknown): Promise<Response> {
  return anonymous.post(`/devices/${id}/mqtt-token/renew`, body);
}
