/** Client addresses: the address of a request, and whether an API key may be used from it [C-4.2]. */
import type { Context } from 'hono';
import { isInRanges, networkOf } from '../../protocol/address-range.ts';
import type { Place } from '../../registry/sessions.ts';
import type { AppContext } from '../env.ts';

const MAX_AGENT_CHARS = 200;

/**
 * Whether the address lies in one of the ranges. Without ranges every address is allowed; with ranges an
 * unknown address is rejected.
 */
export function isAllowedAddress(address: string | null, ranges: readonly string[]): boolean {
  return ranges.length === 0 || (address !== null && isInRanges(address, ranges));
}

/**
 * The client address, or null if it is unknown. On Cloudflare it is in a header that clients cannot set. In
 * other deployments clients could forge that header, so it is not used.
 */
export function clientAddress(headers: Headers, front: string | undefined): string | null {
  return front === 'platform' ? headers.get('cf-connecting-ip') : null;
}

/** The client address of a request: for audit rows, `allowedIps`, rate limits, and the list of sessions. */
export function addressOf(c: Context<AppContext>): string | null {
  return clientAddress(c.req.raw.headers, c.env.CLIENT_ADDRESS);
}

/** Where a request comes from: for the list of a person's sessions, and for the count of failed logins. */
export function placeOf(c: Context<AppContext>): Place {
  const address = addressOf(c);
  const userAgent =
    c.req
      .header('user-agent')
      ?.replace(/[^ -~]/g, '')
      .slice(0, MAX_AGENT_CHARS) || null;
  return { address, userAgent, network: address === null ? 'unknown' : networkOf(address) };
}
