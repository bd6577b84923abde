/** Client addresses against CIDR ranges: IPv4, IPv6, and IPv4 mapped into IPv6 counts as IPv4 [C-4.2]. */
import type { Context } from 'hono';
import ipaddr from 'ipaddr.js';
import type { AppContext } from '../env.ts';

/** Whether it is a range, or a single address. */
export function isRange(text: string): boolean {
  const [address = ''] = text.split('/');
  // No short and no octal forms: they mean another range to whoever wrote them.
  const isWritten = address.includes(':') || ipaddr.IPv4.isValidFourPartDecimal(address);
  return isWritten && parseRange(text) !== undefined;
}

/** Whether an address lies in one of the ranges. No ranges: everywhere. An unknown address: nowhere. */
export function isAllowedAddress(address: string | null, ranges: readonly string[]): boolean {
  if (ranges.length === 0) return true;
  if (!address || !ipaddr.isValid(address)) return false;
  const client = ipaddr.process(address);
  return ranges.some((range) => {
    const parsed = parseRange(range);
    return parsed !== undefined && client.kind() === parsed[0].kind() && client.match(parsed);
  });
}

/** A range, a single address being the narrowest; undefined for what is neither. */
function parseRange(range: string): [ipaddr.IPv4 | ipaddr.IPv6, number] | undefined {
  try {
    if (range.includes('/')) return unmapped(ipaddr.parseCIDR(range));
    const address = ipaddr.process(range);
    return [address, address.kind() === 'ipv4' ? 32 : 128];
  } catch {
    return undefined;
  }
}

/** A range of mapped addresses is one of IPv4. */
function unmapped(range: [ipaddr.IPv4 | ipaddr.IPv6, number]): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  const [address, bits] = range;
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96;
  return isMapped ? [address.toIPv4Address(), bits - 96] : range;
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
