/**
 * Locks logins after wrong passwords [C-14.4]. Ten wrong passwords for an e-mail address from one network
 * lock logins to that address from that network. A hundred from all networks lock all logins to the address,
 * except from browsers in which it has logged in before, so that strangers cannot lock the owner out.
 */
import type { Context } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { hmacHex, verifyHmac } from '../../durable-objects/secrets/hmac.ts';
import { networkOf } from '../../protocol/address-range.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { countAttempt, countHere } from '../../registry/login-failures.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { addressOf, placeOf } from './address.ts';
import type { HashWaiter } from './hash-turn.ts';
import { secretsOf } from './session-tokens.ts';

const KNOWN_BROWSER_COOKIE = 'known_browser';
/**
 * While an address is locked because of attempts from all networks, a known browser waits this long before
 * its password is checked.
 */
const ATTACKED_DELAY_MS = 1_000;

/** Counts one attempt to log in. Throws 423 ACCOUNT_LOCKED when too many have failed. */
export async function requireUnlocked(c: Context<AppContext>, email: string, now: number): Promise<void> {
  const { network } = placeOf(c);
  const attempts = await countAttempt(c.env.DB, { email, network }, now);
  if (attempts.here > LIMIT.wrongLogins) throw locked(attempts.hereEndsMs - now);
  if (attempts.everywhere <= LIMIT.wrongLoginsEverywhere) return;
  if (!isKnownBrowser(c, email, now)) throw locked(attempts.everywhereEndsMs - now);
  await scheduler.wait(ATTACKED_DELAY_MS);
}

/** Counts one check of the password inside a session. It counts for this session only, and failed logins do not. */
export async function requireUnlockedSession(
  c: Context<AppContext>,
  email: string,
  sessionId: string,
  now: number,
): Promise<void> {
  const { here, hereEndsMs } = await countHere(c.env.DB, { email, network: sessionNetwork(sessionId) }, now);
  if (here > LIMIT.wrongLogins) throw locked(hereEndsMs - now);
}

/** The text that is stored as the network for checks inside a session. */
export function sessionNetwork(sessionId: string): string {
  return `session ${sessionId}`;
}

/**
 * Called after a successful login: sets the cookie by which the browser later proves that this address has
 * logged in with it.
 */
export function rememberBrowser(c: Context<AppContext>, email: string, now: number): void {
  const expiresAtMs = now + LIMIT.knownBrowserMs;
  const [newest = ''] = secretsOf(c.env.SESSION_SECRET);
  setCookie(c, KNOWN_BROWSER_COOKIE, `${expiresAtMs}.${hmacHex(newest, knownText(email, expiresAtMs))}`, {
    httpOnly: true,
    secure: true,
    sameSite: 'Lax',
    path: '/api/v1/auth',
    maxAge: LIMIT.knownBrowserMs / 1_000,
  });
}

/** Who waits for a hash: a known browser of that address, or anybody of a network. */
export function waiterOf(c: Context<AppContext>, email: string, now: number): HashWaiter {
  const address = addressOf(c);
  return {
    network: address === null ? null : networkOf(address),
    account: email !== '' && isKnownBrowser(c, email, now) ? email : null,
  };
}

function isKnownBrowser(c: Context<AppContext>, email: string, now: number): boolean {
  const [, time = '', mac = ''] =
    /^(\d{1,15})\.([0-9a-f]{64})$/.exec(getCookie(c, KNOWN_BROWSER_COOKIE) ?? '') ?? [];
  const expiresAtMs = Number(time);
  if (mac === '' || expiresAtMs <= now) return false;
  const signed = knownText(email, expiresAtMs);
  return secretsOf(c.env.SESSION_SECRET).some((secret) => verifyHmac(secret, signed, mac));
}

function knownText(email: string, expiresAtMs: number): string {
  return `sitewire-known-browser|${expiresAtMs}|${email}`;
}

function locked(forMs: number): ApiError {
  const seconds = Math.max(1, Math.ceil(forMs / 1_000));
  const message = `Too many wrong passwords for this account: try again in ${seconds} s, or reset the password`;
  return new ApiError('ACCOUNT_LOCKED', message, { headers: { 'retry-after': String(seconds) } });
}
