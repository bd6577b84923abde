/** PROXY headers: valid and invalid ones, and that the result does not depend on how the bytes are cut. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll, forMany } from '#support/property.ts';
import { addition, binaryHeader, lineHeader } from '#support/proxy-headers.ts';
import { MAX_PROXY_HEADER_BYTES, type ProxyHeader, readProxyHeader } from '../../bridge/proxy-header.ts';

const CLIENT_HELLO = Buffer.from([22, 3, 1, 0, 200, 1, 0, 0, 196]);

function whole(bytes: Buffer, address: string | undefined): ProxyHeader {
  return { is: 'whole', length: bytes.length, address };
}

/** The verdict, and the number of bytes that it needed. */
function readSlowly(bytes: Buffer, cuts: number[]): { verdict: ProxyHeader; read: number } {
  for (const cut of [...new Set(cuts)].sort((left, right) => left - right)) {
    const verdict = readProxyHeader(bytes.subarray(0, cut));
    if (verdict.is !== 'partial') return { verdict, read: cut };
  }
  return { verdict: readProxyHeader(bytes), read: bytes.length };
}

describe('a header of version 1', () => {
  it.each([
    ['PROXY TCP4 192.0.2.7 198.51.100.1 56324 5671\r\n', '192.0.2.7'],
    ['PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n', '255.255.255.255'],
    ['PROXY TCP4 192.0.2.7 198.51.100.1 0 0\r\n', '192.0.2.7'],
    ['PROXY TCP6 2001:db8::7 2001:db8::1 56324 8885\r\n', '2001:db8::7'],
    ['PROXY TCP6 2001:0DB8:0000:0000:0000:0000:0000:0007 ::1 1 1\r\n', '2001:db8::7'],
    ['PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 1 1\r\n', '192.0.2.7'],
    ['PROXY UNKNOWN\r\n', undefined],
    ['PROXY UNKNOWN ffff:f...f:ffff 192.0.2.7 65535 x\r\n', undefined],
  ])('%j names %s', (line, address) => {
    const bytes = Buffer.from(line);
    expect(readProxyHeader(bytes)).toEqual(whole(bytes, address));
    expect(readProxyHeader(Buffer.concat([bytes, CLIENT_HELLO]))).toEqual(whole(bytes, address));
  });

  it('has at most 107 bytes', () => {
    const longest = Buffer.from(`PROXY UNKNOWN ${'f'.repeat(91)}\r\n`);
    expect(longest.length).toBe(107);
    expect(readProxyHeader(longest)).toEqual(whole(longest, undefined));
    const longer = Buffer.from(`PROXY UNKNOWN ${'f'.repeat(92)}\r\n`);
    expect(readProxyHeader(longer)).toEqual({ is: 'wrong', why: 'header line longer than 107 bytes' });
    expect(readProxyHeader(longer.subarray(0, 106))).toEqual({ is: 'partial' });
    expect(readProxyHeader(longer.subarray(0, 107)).is).toBe('wrong');
  });

  it.each([
    'PROXY\r\n',
    'PROXY \r\n',
    'PROXY TCP4\r\n',
    'PROXY TCP4 192.0.2.7 198.51.100.1 56324\r\n',
    'PROXY TCP4 192.0.2.7 198.51.100.1 56324 5671 \r\n',
    'PROXY TCP4  192.0.2.7 198.51.100.1 56324 5671\r\n',
    'PROXY TCP4 192.0.2.7 198.51.100.1 56324 65536\r\n',
    'PROXY TCP4 192.0.2.7 198.51.100.1 56324 05671\r\n',
    'PROXY TCP4 192.0.2.7 198.51.100.1 -1 5671\r\n',
    'PROXY TCP4 192.0.2.007 198.51.100.1 1 1\r\n',
    'PROXY TCP4 192.0.2 198.51.100.1 1 1\r\n',
    'PROXY TCP4 192.0.2.256 198.51.100.1 1 1\r\n',
    'PROXY TCP4 2001:db8::7 2001:db8::1 1 1\r\n',
    'PROXY TCP4 192.0.2.7 nowhere 1 1\r\n',
    'PROXY TCP6 192.0.2.7 198.51.100.1 1 1\r\n',
    'PROXY TCP6 fe80::7%eth0 ::1 1 1\r\n',
    'PROXY UDP4 192.0.2.7 198.51.100.1 1 1\r\n',
    'PROXY tcp4 192.0.2.7 198.51.100.1 1 1\r\n',
    'proxy TCP4 192.0.2.7 198.51.100.1 1 1\r\n',
    ' PROXY TCP4 192.0.2.7 198.51.100.1 1 1\r\n',
    'PROXY TCP4 192.0.2.7 198.51.100.1 1 1\n\r\n',
  ])('%j is invalid', (line) => {
    expect(readProxyHeader(Buffer.from(line)).is).toBe('wrong');
  });
});

describe('a header of version 2', () => {
  it.each([
    ['of an IPv4 client', binaryHeader('192.0.2.7'), '192.0.2.7'],
    ['of an IPv6 client', binaryHeader('2001:db8::7'), '2001:db8::7'],
    ['of an IPv4 client mapped into IPv6', binaryHeader('::ffff:192.0.2.7'), '192.0.2.7'],
    ['with additions', binaryHeader('192.0.2.7', { additions: addition(0xea, 24) }), '192.0.2.7'],
    ['with all that may be added', binaryHeader('192.0.2.7', { additions: addition(4, 4_081) }), '192.0.2.7'],
    ['of the proxy itself', binaryHeader('192.0.2.7', { command: 0x20 }), undefined],
    ['of the proxy itself, without addresses', binaryHeader('', { command: 0x20, family: 0 }), undefined],
    ['of no client', binaryHeader('', { family: 0, additions: addition(1, 9) }), undefined],
  ])('%s is complete with its last byte, whatever follows', (_title, bytes, address) => {
    expect(readProxyHeader(bytes)).toEqual(whole(bytes, address));
    expect(readProxyHeader(Buffer.concat([bytes, CLIENT_HELLO]))).toEqual(whole(bytes, address));
    expect(readProxyHeader(bytes.subarray(0, -1))).toEqual({ is: 'partial' });
  });

  it.each([
    ['of UDP over IPv4', binaryHeader('192.0.2.7', { family: 0x12 }), 'unsupported address family 12'],
    ['of UDP over IPv6', binaryHeader('2001:db8::7', { family: 0x22 }), 'unsupported address family 22'],
    [
      'of a UNIX stream',
      binaryHeader('', { family: 0x31, additions: Buffer.alloc(216) }),
      'unsupported address family 31',
    ],
    [
      'of a UNIX datagram',
      binaryHeader('', { family: 0x32, additions: Buffer.alloc(216) }),
      'unsupported address family 32',
    ],
    ['of IPv4 over nothing', binaryHeader('192.0.2.7', { family: 0x10 }), 'unsupported address family 10'],
    ['of version 1', binaryHeader('192.0.2.7', { command: 0x11 }), 'unsupported version 1'],
    ['of version 3', binaryHeader('192.0.2.7', { command: 0x31 }), 'unsupported version 3'],
    ['with another command', binaryHeader('192.0.2.7', { command: 0x22 }), 'unsupported command 2'],
    [
      'too short for IPv4',
      binaryHeader('', { family: 0x11, additions: Buffer.alloc(11) }),
      'header too short for its addresses',
    ],
    ['too short for IPv6', binaryHeader('192.0.2.7', { family: 0x21 }), 'header too short for its addresses'],
    [
      'of more than 4 KiB',
      binaryHeader('192.0.2.7', { additions: addition(4, 4_082) }),
      'header length 4097 is too large',
    ],
  ])('%s is invalid as soon as 16 bytes have arrived', (_title, bytes, why) => {
    expect(readProxyHeader(bytes.subarray(0, 16))).toEqual({ is: 'wrong', why });
    expect(readProxyHeader(bytes)).toEqual({ is: 'wrong', why });
  });
});

describe('the first bytes of a connection', () => {
  it.each([
    ['a TLS ClientHello', CLIENT_HELLO],
    ['an AMQP header', Buffer.from('AMQP\0\0\x09\x01', 'latin1')],
    ['an HTTP request', Buffer.from('POST / HTTP/1.1\r\n')],
    ['a signature with its last byte changed', Buffer.from('\r\n\r\n\0\r\nQUIT\r', 'latin1')],
  ])('%s is not a header', (_title, bytes) => {
    expect(readProxyHeader(bytes)).toEqual({ is: 'wrong', why: 'no PROXY header' });
  });

  it('zero bytes are an incomplete header', () => {
    expect(readProxyHeader(Buffer.alloc(0))).toEqual({ is: 'partial' });
  });

  const address = fc.oneof(fc.ipV4(), fc.ipV6());
  const header = fc.oneof(
    address.map((client) => lineHeader(client)),
    fc.tuple(address, fc.nat(4_000)).map(([client, size]) => {
      return binaryHeader(client, {
        additions: size < 3 ? Buffer.alloc(0) : addition(size & 0xff, size - 3),
      });
    }),
  );

  it('a header gives the same result in any chunks and with any bytes after it', () => {
    forAll(
      header,
      fc.uint8Array({ maxLength: 300 }),
      fc.array(fc.nat(5_000), { maxLength: 20 }),
      (bytes, rest, cuts) => {
        const atOnce = readProxyHeader(bytes);
        expect(atOnce).toMatchObject({ is: 'whole', length: bytes.length });
        const { verdict } = readSlowly(Buffer.concat([bytes, rest]), cuts);
        expect(verdict).toEqual(atOnce);
      },
    );
  });

  it('a header is incomplete until its last byte', () => {
    forMany(30, header, (bytes) => {
      const cuts = Array.from({ length: bytes.length }, (_, index) => index);
      const { verdict, read } = readSlowly(bytes, cuts);
      expect(verdict.is).toBe('whole');
      expect(read).toBe(bytes.length);
    });
  });

  it('once a header is accepted or rejected, more bytes do not change the result', () => {
    const start = fc.constantFrom(
      '',
      'PROXY ',
      'PROXY TCP4 ',
      '\r\n\r\n\0\r\nQUIT\n',
      '\r\n\r\n\0\r\nQUIT\n\x21\x11',
    );
    const noise = fc.uint8Array({ maxLength: 6_000, size: 'max' });
    forMany(500, start, noise, fc.array(fc.nat(6_000), { maxLength: 10 }), (text, tail, cuts) => {
      const bytes = Buffer.concat([Buffer.from(text, 'latin1'), tail]);
      const { verdict, read } = readSlowly(bytes, cuts);
      if (verdict.is === 'partial') expect(bytes.length).toBeLessThan(MAX_PROXY_HEADER_BYTES);
      if (verdict.is === 'whole')
        expect(verdict.length).toBeLessThanOrEqual(Math.min(read, MAX_PROXY_HEADER_BYTES));
      if (verdict.is !== 'partial') expect(readProxyHeader(bytes)).toEqual(verdict);
      expect(readProxyHeader(bytes.subarray(0, MAX_PROXY_HEADER_BYTES))).toEqual(readProxyHeader(bytes));
    });
  });
});
