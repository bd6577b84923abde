/**
 * Authenticates bridges (rule 1): without a valid proof the link paths do not exist. A bridge that has the
 * secret but a wrong clock gets only the edge's time.
 */
import { createMiddleware } from 'hono/factory';
import { refusalResponse } from '../../durable-objects/dial.ts';
import { verifyHmac } from '../../durable-objects/secrets/hmac.ts';
import {
  type BridgeProof,
  CLOCK_HEADER,
  LINK_VERSION_HEADER,
  PROOF_HEADER,
  PROOF_TOLERANCE_MS,
  parseProof,
  proofSigningString,
  servedLinkVersions,
} from '../../protocol/link/proof.ts';
import type { AppContext } from '../env.ts';

/**
 * Returns the bridge's data about its client, or undefined without a valid proof. The object, not this
 * function, ensures that a proof is used once. `secrets`: the accepted secrets, separated by commas: `id=secret` is only
 * for the bridge with this id, a secret without an id for every bridge that has none of its own.
 */
export function verifyBridge(request: Request, secrets: string, now: number): BridgeProof | undefined {
  const proof = provenBy(request, secrets);
  return proof && isInTime(proof, now) ? proof : undefined;
}

function provenBy(request: Request, secrets: string): BridgeProof | undefined {
  const header = request.headers.get(PROOF_HEADER);
  const parsed = header ? parseProof(header) : undefined;
  if (!parsed) return undefined;
  const path = new URL(request.url).pathname;
  const text = proofSigningString(parsed.proof, path, request.headers.get('authorization') ?? '');
  const isGood = secretsOf(secrets, parsed.proof.bridge).some((secret) =>
    verifyHmac(secret, text, parsed.mac),
  );
  return isGood ? parsed.proof : undefined;
}

const SECRET_OF_BRIDGE = /^([A-Za-z0-9._-]{1,64})=(.{32,})$/;

/**
 * The secrets that this bridge may use. If a secret is configured for this bridge id, the bridge may not use
 * the secrets without an id.
 */
function secretsOf(secrets: string, bridge: string): string[] {
  const all = secrets
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .map((entry) => {
      const [, id, secret] = SECRET_OF_BRIDGE.exec(entry) ?? [];
      return { id, secret: secret ?? entry };
    });
  const own = all.filter(({ id }) => id === bridge);
  return (own.length > 0 ? own : all.filter(({ id }) => id === undefined)).map(({ secret }) => secret);
}

function isInTime({ timeMs }: BridgeProof, now: number): boolean {
  return Math.abs(now - timeMs) <= PROOF_TOLERANCE_MS;
}

/** For all link paths: makes the request id of their log lines. No header names it, because an upgrade has none of ours. */
export const nameRequest = createMiddleware<AppContext>(async (c, next) => {
  c.set('requestId', crypto.randomUUID());
  await next();
});

/** For all link paths: adds the edge's time to the 404 if the proof has the right secret but a wrong time. */
export const reportClock = createMiddleware<AppContext>(async (c, next) => {
  await next();
  if (c.res.status !== 404) return;
  const now = Date.now();
  const proof = provenBy(c.req.raw, c.env.BRIDGE_SECRET);
  if (proof && !isInTime(proof, now)) c.header(CLOCK_HEADER, String(now));
});

/** For all link paths: refuses an authenticated bridge with a link version that the edge does not serve. */
export const requireLinkVersion = createMiddleware<AppContext>(async (c, next) => {
  const version = c.req.header(LINK_VERSION_HEADER) || 'none';
  const served = servedLinkVersions().map(String);
  if (served.includes(version) || !verifyBridge(c.req.raw, c.env.BRIDGE_SECRET, Date.now()))
    return await next();
  const which = `The edge serves link version ${served.join(' and ')}, and this bridge speaks ${version}`;
  return refusalResponse('BAD_REQUEST', `${which}. Update the older of the two`);
});

/** Answers 204 if the bridge's proof is valid. Bridges use it for their /readyz. */
export const linkReady = createMiddleware<AppContext>(async (c, next) => {
  if (!verifyBridge(c.req.raw, c.env.BRIDGE_SECRET, Date.now())) return await next();
  return c.body(null, 204);
});

/** User name and password of `Authorization: Basic`; undefined if the header is missing or malformed. */
export function basicCredentials(headers: Headers): { username: string; password: string } | undefined {
  const match = /^Basic ([A-Za-z0-9+/]+=*)$/.exec(headers.get('authorization') ?? '');
  if (!match?.[1]) return undefined;
  const text = decodeBase64(match[1]);
  if (text === undefined) return undefined;
  const colon = text.indexOf(':');
  if (colon < 0) return undefined;
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

function decodeBase64(base64: string): string | undefined {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)));
  } catch {
    return undefined;
  }
}
