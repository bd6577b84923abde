/** MQTT tokens as the platform signs them, and as an attacker would. */
import { type CompactJWSHeaderParameters, CompactSign, importJWK } from 'jose';
import { TOKEN_PRIVATE_KEY } from './tokens.ts';

type SigningKey = Parameters<CompactSign['sign']>[0];

/** Claims of a good token; `changes` replaces some, undefined takes one out. */
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

/** A token over any claims, with any header, by any key; ours unless told otherwise. */
export async function signToken(
  claims: unknown,
  options: { header?: CompactJWSHeaderParameters; key?: SigningKey } = {},
): Promise<string> {
  const key = options.key ?? (await importJWK(TOKEN_PRIVATE_KEY, 'EdDSA'));
  return await new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader(options.header ?? { alg: 'EdDSA' })
    .sign(key);
}

/** A good token of a device, but for the claims that are changed. */
export async function deviceToken(deviceId: string, changes: Record<string, unknown> = {}): Promise<string> {
  return await signToken(tokenClaims(deviceId, changes));
}

/** A token whose parts are just what is given: no signature is made. */
export function unsignedToken(header: unknown, claims: unknown, signature = ''): string {
  const encode = (value: unknown) =>
    btoa(JSON.stringify(value)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  return `${encode(header)}.${encode(claims)}.${signature}`;
}
