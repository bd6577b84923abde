/**
 * Reads the header of the PROXY protocol, versions 1 and 2, in which a proxy sends the client's address.
 * Pure: takes bytes and returns a result; a partial header is read again when more bytes have arrived.
 * Checksums and other additions (TLVs) of version 2 are not checked, because a peer that may send a header is
 * trusted.
 */
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Longest line of version 1, including its line end. */
const MAX_LINE_BYTES = 107;
const LINE_START = Buffer.from('PROXY ');
const LINE_END = Buffer.from('\r\n');

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const FIXED_BYTES = 16;
/** Most bytes after the fixed part of version 2: addresses and additions. */
const MAX_VARIABLE_BYTES = 4_096;
const VERSION = 2;
const COMMAND = { local: 0, proxy: 1 } as const;
/** Values of the byte with address family and transport; the map gives the bytes per address for TCP. */
const UNSPECIFIED = 0x00;
const TCP_ADDRESS_BYTES: Readonly<Record<number, number>> = { 17: 4, 33: 16 };

/** Length of the longest header. */
export const MAX_PROXY_HEADER_BYTES = FIXED_BYTES + MAX_VARIABLE_BYTES;

export type ProxyHeader =
  /** Valid so far; more bytes are needed. */
  | { is: 'partial' }
  /**
   * `length` is in bytes. Without an address the header names no client: the proxy itself opened the connection
   * (a health check), or it does not know the client's address.
   */
  | { is: 'whole'; length: number; address: string | undefined }
  | { is: 'wrong'; why: string };

const PARTIAL: ProxyHeader = { is: 'partial' };

/** `bytes` is everything that a connection has sent so far. Returns an IPv4-mapped IPv6 address as IPv4. */
export function readProxyHeader(bytes: Buffer): ProxyHeader {
  if (startsAs(bytes, SIGNATURE)) return bytes.length < FIXED_BYTES ? PARTIAL : readBinary(bytes);
  if (startsAs(bytes, LINE_START)) return readLine(bytes);
  return wrong('no PROXY header');
}

/** Whether `bytes`, which may be shorter than `start`, agrees with it so far. */
function startsAs(bytes: Buffer, start: Buffer): boolean {
  const seen = Math.min(bytes.length, start.length);
  return bytes.subarray(0, seen).equals(start.subarray(0, seen));
}

function readLine(bytes: Buffer): ProxyHeader {
  const end = bytes.subarray(0, MAX_LINE_BYTES).indexOf(LINE_END);
  if (end < 0) return bytes.length < MAX_LINE_BYTES ? PARTIAL : wrong('header line longer than 107 bytes');
  const length = end + LINE_END.length;
  const [, protocol, source = '', destination = '', ...ports] = bytes.toString('latin1', 0, end).split(' ');
  // The PROXY protocol requires the receiver to ignore the rest of an UNKNOWN line.
  if (protocol === 'UNKNOWN') return { is: 'whole', length, address: undefined };
  const isAddress = protocol === 'TCP4' ? isIPv4 : protocol === 'TCP6' ? isPlainIPv6 : undefined;
  if (!isAddress) return wrong('protocol other than TCP4, TCP6 and UNKNOWN');
  const isGood = isAddress(source) && isAddress(destination) && ports.length === 2 && ports.every(isPort);
  return isGood ? { is: 'whole', length, address: plain(ipaddr.parse(source)) } : wrong('malformed line');
}

/** IPv6 without a zone: a zone has a meaning only on the proxy's own machine. */
function isPlainIPv6(text: string): boolean {
  return isIPv6(text) && !text.includes('%');
}

function isPort(text: string): boolean {
  return /^(0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65_535;
}

/** `bytes` holds at least the fixed part. */
function readBinary(bytes: Buffer): ProxyHeader {
  const version = bytes.readUInt8(12) >>> 4;
  const command = bytes.readUInt8(12) & 0x0f;
  const family = bytes.readUInt8(13);
  const variableBytes = bytes.readUInt16BE(14);
  if (version !== VERSION) return wrong(`unsupported version ${version}`);
  if (command !== COMMAND.local && command !== COMMAND.proxy) return wrong(`unsupported command ${command}`);
  if (variableBytes > MAX_VARIABLE_BYTES) return wrong(`header length ${variableBytes} is too large`);
  const isAnonymous = command === COMMAND.local || family === UNSPECIFIED;
  const addressBytes = isAnonymous ? 0 : TCP_ADDRESS_BYTES[family];
  if (addressBytes === undefined)
    return wrong(`unsupported address family ${family.toString(16).padStart(2, '0')}`);
  // The variable part begins with two addresses and two ports.
  if (!isAnonymous && variableBytes < 2 * addressBytes + 4)
    return wrong('header too short for its addresses');
  const length = FIXED_BYTES + variableBytes;
  if (bytes.length < length) return PARTIAL;
  const source = bytes.subarray(FIXED_BYTES, FIXED_BYTES + addressBytes);
  const address = isAnonymous ? undefined : plain(ipaddr.fromByteArray([...source]));
  return { is: 'whole', length, address };
}

function plain(address: ipaddr.IPv4 | ipaddr.IPv6): string {
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress();
  return isMapped ? address.toIPv4Address().toString() : address.toString();
}

function wrong(why: string): ProxyHeader {
  return { is: 'wrong', why };
}
