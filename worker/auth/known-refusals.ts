/**
 * Who is over a rate stays over it until its minute ends. For two seconds the isolate refuses the same credential on the
 * same route from memory, before it looks at D1 or at a counter: a caller that sends as fast as it can costs the others
 * little [C-14.2]. So a limit that was raised, and the end of a credential, show two seconds later in its 429s.
 */
import type { Context } from 'hono';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import type { AppContext } from '../env.ts';
import { setBounded } from '../http/bounded-map.ts';
import { TooManyRequests } from '../http/rate.ts';
import { readAccessCookie } from './access-cookie.ts';
import { addressOf } from './address.ts';

const KEPT_MS = 2_000;
const MAX_KNOWN = 10_000;

interface Known {
  refusal: TooManyRequests;
  notedAtMs: number;
}

/** By the hash of `callOf`, so that the memory has no credential. */
const known = new Map<string, Known>();

/** Throws the refusal of an earlier call, if it still holds. `organizationId`: as in `noteRefusal`. */
export function refuseAgain(c: Context<AppContext>, organizationId: string): void {
  const call = known.size > 0 ? callOf(c, organizationId) : undefined;
  const found = call === undefined ? undefined : known.get(call);
  if (call === undefined || !found) return;
  const now = Date.now();
  const ageMs = now - found.notedAtMs;
  // Also if the clock was set back.
  const isOld = ageMs < 0 || ageMs >= KEPT_MS;
  if (isOld || found.refusal.hasEnded(now)) known.delete(call);
  else throw found.refusal.again(c);
}

/** `organizationId`: the one that the path names, if each has a rate of its own there; else empty. */
export function noteRefusal(c: Context<AppContext>, organizationId: string, error: unknown): void {
  if (!(error instanceof TooManyRequests)) return;
  const call = callOf(c, organizationId);
  if (call !== undefined) setBounded(known, call, { refusal: error, notedAtMs: Date.now() }, MAX_KNOWN);
}

/** The caller and the route of a request, hashed; undefined without a credential. */
function callOf(c: Context<AppContext>, organizationId: string): string | undefined {
  const credentials = [c.req.header('x-api-key'), c.req.header('authorization'), readAccessCookie(c)];
  if (credentials.every((credential) => !credential)) return undefined;
  const route = `${c.req.method} ${c.req.routePath}`;
  return sha256Hex(
    JSON.stringify([credentials, addressOf(c), route, c.req.header('x-org-id'), organizationId]),
  );
}
