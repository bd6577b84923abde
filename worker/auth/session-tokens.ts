/**
 * Tokens of a user's session [C-1.4]: the access token is a JWT (only HS256, our issuer, audience `rest`);
 * the refresh token consists of session id and generation with a MAC. Neither token is stored: the row of the
 * session shows whether it is still valid.
 */
import { jwtVerify, SignJWT } from 'jose';
import { hmacHex, verifyHmac } from '../../durable-objects/secrets/hmac.ts';
import { isUuid } from '../../protocol/ids.ts';
import { LIMIT } from '../../protocol/limits.ts';

const ALGORITHM = 'HS256';
const ISSUER = 'sitewire';
const AUDIENCE = 'rest';
const MIN_SECRET_CHARACTERS = 32;

const encoder = new TextEncoder();

export interface AccessToken {
  userId: string;
  sessionId: string;
  /** The user's token version when the token was signed. */
  tokenVersion: number;
}

export interface RefreshToken {
  sessionId: string;
  generation: number;
}

/** The configured secrets, newest first. Throws if one of them is too short. */
export function secretsOf(sessionSecret: string): string[] {
  const secrets = sessionSecret.split(',').map((secret) => secret.trim());
  if (secrets.some((secret) => secret.length < MIN_SECRET_CHARACTERS))
    throw new Error(`each secret in SESSION_SECRET must have at least ${MIN_SECRET_CHARACTERS} characters`);
  return secrets;
}

export async function signAccessToken(
  sessionSecret: string,
  token: AccessToken,
  now: number,
): Promise<string> {
  const [newest = ''] = secretsOf(sessionSecret);
  const issuedAt = Math.floor(now / 1_000);
  return await new SignJWT({ ver: token.tokenVersion, sid: token.sessionId })
    .setProtectedHeader({ alg: ALGORITHM })
    .setIssuer(ISSUER)
    .setAudience(AUDIENCE)
    .setSubject(token.userId)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + LIMIT.accessTokenMs / 1_000)
    .sign(encoder.encode(newest));
}

/** Returns undefined for any invalid token. */
export async function verifyAccessToken(
  sessionSecret: string,
  token: string,
  now: number,
): Promise<AccessToken | undefined> {
  for (const secret of secretsOf(sessionSecret)) {
    const verified = await jwtVerify(token, encoder.encode(secret), {
      algorithms: [ALGORITHM],
      issuer: ISSUER,
      audience: AUDIENCE,
      requiredClaims: ['exp', 'sub'],
      currentDate: new Date(now),
    }).catch(() => undefined);
    if (!verified) continue;
    const { sub = '', sid, ver } = verified.payload;
    if (!isUuid(sub) || typeof sid !== 'string' || typeof ver !== 'number') return undefined;
    return { userId: sub, sessionId: sid, tokenVersion: ver };
  }
  return undefined;
}

export function signRefreshToken(sessionSecret: string, token: RefreshToken): string {
  const [newest = ''] = secretsOf(sessionSecret);
  return `${token.sessionId}.${token.generation}.${hmacHex(newest, refreshText(token))}`;
}

/** Returns undefined for a text that we did not sign. */
export function readRefreshToken(sessionSecret: string, text: string): RefreshToken | undefined {
  const match = /^([0-9a-f-]{36})\.([1-9]\d{0,9})\.([0-9a-f]{64})$/.exec(text);
  if (!match) return undefined;
  const [, sessionId = '', generation, mac = ''] = match;
  const token = { sessionId, generation: Number(generation) };
  const isOurs = secretsOf(sessionSecret).some((secret) => verifyHmac(secret, refreshText(token), mac));
  return isOurs ? token : undefined;
}

function refreshText({ sessionId, generation }: RefreshToken): string {
  return `sitewire-refresh|${sessionId}|${generation}`;
}
