/** Addresses and CIDR ranges: IPv4, IPv6, and IPv4 mapped into IPv6 counts as IPv4 [C-4.2]. */
import ipaddr from 'ipaddr.js';

/** Whether it is a range, or a single address. */
export function isRange(text: string): boolean {
  const [address = ''] = text.split('/');
  // No short and no octal forms: they mean another range to whoever wrote them.
  const isWritten = address.includes(':') || ipaddr.IPv4.isValidFourPartDecimal(address);
  return isWritten && parseRange(text) !== undefined;
}

/** Whether an address lies in one of the ranges. No ranges, or no address: it does not. */
export function isInRanges(address: string, ranges: readonly string[]): boolean {
  if (ranges.length === 0 || !ipaddr.isValid(address)) return false;
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
