/** IPv4 and IPv6 addresses and CIDR ranges. An IPv4 address mapped into IPv6 counts as IPv4 [C-4.2]. */
import ipaddr from 'ipaddr.js';

/** Whether the text is a CIDR range or a single address. */
export function isRange(text: string): boolean {
  const [address = ''] = text.split('/');
  // Short and octal IPv4 forms are rejected, because ipaddr.js may read them differently from their author.
  const isWritten = address.includes(':') || ipaddr.IPv4.isValidFourPartDecimal(address);
  return isWritten && parseRange(text) !== undefined;
}

/** Whether the address lies in one of the ranges. False without ranges, and for a malformed address. */
export function isInRanges(address: string, ranges: readonly string[]): boolean {
  if (ranges.length === 0 || !ipaddr.isValid(address)) return false;
  const client = ipaddr.process(address);
  return ranges.some((range) => {
    const parsed = parseRange(range);
    return parsed !== undefined && client.kind() === parsed[0].kind() && client.match(parsed);
  });
}

/** An IPv6 address counts as its /64 network, because one client usually has all addresses of it. */
export function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString();
  return `${parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}::/64`;
}

/** Parses a CIDR range; a single address becomes /32 or /128. Returns undefined for any other text. */
function parseRange(range: string): [ipaddr.IPv4 | ipaddr.IPv6, number] | undefined {
  try {
    if (range.includes('/')) return unmapped(ipaddr.parseCIDR(range));
    const address = ipaddr.process(range);
    return [address, address.kind() === 'ipv4' ? 32 : 128];
  } catch {
    return undefined;
  }
}

/** Converts a range of IPv4-mapped addresses to the IPv4 range. */
function unmapped(range: [ipaddr.IPv4 | ipaddr.IPv6, number]): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  const [address, bits] = range;
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96;
  return isMapped ? [address.toIPv4Address(), bits - 96] : range;
}
