/** Client addresses: which one a request has, and whether a key may be used from there [C-4.2]. */
import type { Context } from 'hono';
import { isInRanges } from '../../protocol/address-range.ts';
import type { AppContext } from '../env.ts';

/** Whether an address lies in one of the ranges. No ranges: everywhere. An unknown address: nowhere. */
export function isAllowedAddress(address: string | null, ranges: readonly string[]): boolean {
  return ranges.length === 0 || (address !== null && isInRanges(address, ranges));
}

/**
 * The true client address, as the edge's own front knows it: on the platform its own header, which no client can set;
 * elsewhere that header is a client's to send, and nobody knows.
 */
export function clientAddress(headers: Headers, front: string | undefined): string | null {
  return front === 'platform' ? headers.get('cf-connecting-ip') : null;
}

/** Of a request: for audit rows, and for who is limited to some. */
export function addressOf(c: Context<AppContext>): string | null {
  return clientAddress(c.req.raw.headers, c.env.CLIENT_ADDRESS);
}
