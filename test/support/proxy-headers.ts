/** PROXY headers as a proxy writes them, valid or invalid. */
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');

/** Version 1. */
export function lineHeader(client: string): Buffer {
  const [protocol, destination] = isIPv4(client) ? ['TCP4', '198.51.100.1'] : ['TCP6', '2001:db8::1'];
  return Buffer.from(`PROXY ${protocol} ${client} ${destination} 56324 5671\r\n`);
}

interface BinaryFields {
  /** Version and command. */
  command?: number;
  family?: number;
  additions?: Buffer;
}

/** Version 2; without a client the header has no addresses. */
export function binaryHeader(client: string, fields: BinaryFields = {}): Buffer {
  const { command = 0x21, family = isIPv6(client) ? 0x21 : 0x11, additions = Buffer.alloc(0) } = fields;
  const address = Buffer.from(client === '' ? [] : ipaddr.parse(client).toByteArray());
  const ports = Buffer.alloc(client === '' ? 0 : 4);
  const variable = Buffer.concat([address, address, ports, additions]);
  const fixed = Buffer.from([command, family, variable.length >>> 8, variable.length & 0xff]);
  return Buffer.concat([SIGNATURE, fixed, variable]);
}

/** One extension (TLV) of version 2. */
export function addition(type: number, size: number): Buffer {
  return Buffer.concat([Buffer.from([type, size >>> 8, size & 0xff]), Buffer.alloc(size)]);
}
