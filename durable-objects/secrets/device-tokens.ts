/**
 * MQTT tokens of devices: EdDSA only, issuer `sitewire`, audience `mqtt`, the device as subject, and its
 * topics as claims [C-3.6]. `TOKEN_KEYS` is a JWK set: the first private key signs, every key verifies.
 */
import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  errors,
  importJWK,
  type JWK,
  jwtVerify,
  SignJWT,
} from 'jose';
import { isUuid } from '../../protocol/ids.ts';
import { topicPermissions } from '../../protocol/topics.ts';

const ALGORITHM = 'EdDSA';
const ISSUER = 'sitewire';
const AUDIENCE = 'mqtt';

export interface DeviceToken {
  deviceId: string;
  issuedAtMs: number;
  expiresAtMs: number;
}

/**
 * `isOurs`: this platform signed the token, even if it is no longer valid; then `deviceId` is the device that
 * it names, if any.
 */
export type TokenVerdict =
  | { ok: true; token: DeviceToken }
  | { ok: false; isOurs: true; deviceId: string | null; reason: string }
  | { ok: false; isOurs: false; reason: string };

interface Keys {
  signing: { key: Awaited<ReturnType<typeof importJWK>>; kid: string };
  verifying: ReturnType<typeof createLocalJWKSet>;
}

/** Cached keys of the last `TOKEN_KEYS` value: importing keys takes longer than using them. */
let known: { tokenKeys: string; keys: Keys } | undefined;

/**
 * Returns the token and its expiry, rounded down to whole seconds. The issue time has milliseconds, because
 * it is compared with the time before which all tokens of the device are invalid [C-14.5].
 */
export async function signDeviceToken(
  tokenKeys: string,
  deviceId: string,
  lifetimeSeconds: number,
  now: number,
): Promise<{ token: string; expiresAtMs: number }> {
  const { signing } = await keysOf(tokenKeys);
  const expiresAt = Math.floor(now / 1_000) + lifetimeSeconds;
  const token = await new SignJWT({ ...topicPermissions(deviceId) })
    .setProtectedHeader({ alg: ALGORITHM, kid: signing.kid })
    .setIssuer(ISSUER)
    .setAudience(AUDIENCE)
    .setSubject(deviceId)
    .setIssuedAt(now / 1_000)
    .setExpirationTime(expiresAt)
    .sign(signing.key);
  return { token, expiresAtMs: expiresAt * 1_000 };
}

export async function verifyDeviceToken(tokenKeys: string, token: string): Promise<TokenVerdict> {
  const { verifying } = await keysOf(tokenKeys);
  try {
    const { payload } = await jwtVerify(token, verifying, {
      algorithms: [ALGORITHM],
      issuer: ISSUER,
      audience: AUDIENCE,
      requiredClaims: ['sub', 'exp', 'iat'],
    });
    const { sub = '', exp, iat } = payload;
    if (!isUuid(sub) || typeof exp !== 'number' || typeof iat !== 'number')
      return {
        ok: false,
        isOurs: true,
        deviceId: null,
        reason: 'the subject of the token is not a device id',
      };
    return {
      ok: true,
      token: { deviceId: sub.toLowerCase(), issuedAtMs: Math.round(iat * 1_000), expiresAtMs: exp * 1_000 },
    };
  } catch (error) {
    // jose checks the claims after the signature, so this platform signed the token.
    if (error instanceof errors.JWTExpired)
      return { ok: false, isOurs: true, deviceId: subjectOf(error), reason: 'token expired' };
    if (error instanceof errors.JWTClaimValidationFailed) {
      const reason = `token has a missing or wrong claim: ${error.claim}`;
      return { ok: false, isOurs: true, deviceId: subjectOf(error), reason };
    }
    if (error instanceof errors.JOSEError)
      return { ok: false, isOurs: false, reason: 'token not issued by this platform' };
    // The text is not a JWT.
    if (error instanceof TypeError) return { ok: false, isOurs: false, reason: 'not a token' };
    throw error;
  }
}

function subjectOf({ payload: { sub } }: errors.JWTExpired | errors.JWTClaimValidationFailed): string | null {
  return typeof sub === 'string' && isUuid(sub) ? sub.toLowerCase() : null;
}

async function keysOf(tokenKeys: string): Promise<Keys> {
  if (known?.tokenKeys === tokenKeys) return known.keys;
  // The cache holds the keys and not their promise, because in workerd a request must not await a promise of
  // another request.
  const keys = await readKeys(tokenKeys);
  known = { tokenKeys, keys };
  return keys;
}

async function readKeys(tokenKeys: string): Promise<Keys> {
  const { keys } = JSON.parse(tokenKeys) as { keys: JWK[] };
  const named = await Promise.all(
    keys.map(async (jwk) => ({
      ...jwk,
      alg: ALGORITHM,
      kid: jwk.kid ?? (await calculateJwkThumbprint(jwk)),
    })),
  );
  const first = named.find(({ d }) => d !== undefined);
  if (!first) throw new Error('TOKEN_KEYS has no private key, so no token can be signed: add one');
  // Only the public part of each key is needed to verify.
  const publicKeys = named.map(({ d: _private, ...jwk }) => jwk);
  return {
    signing: { key: await importJWK(first, ALGORITHM), kid: first.kid },
    verifying: createLocalJWKSet({ keys: publicKeys }),
  };
}
