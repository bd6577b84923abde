/** Listeners behind proxies: whose PROXY header is believed, that nothing behind it is lost, and what else is closed. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Server, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createTlsListener, listen } from '../../bridge/tls.ts';
import { readTlsFiles } from '../../bridge/tls-files.ts';
import { CLOCK, Signal, turns } from '../support/bridge-signal.ts';
import { ADDRESS, OTHER_ADDRESS, TestCertificates } from '../support/bridge-whole.ts';
import { addition, binaryHeader, lineHeader } from '../support/proxy-headers.ts';

const CLIENT = '192.0.2.7';
const HEADER = binaryHeader(CLIENT, { additions: addition(4, 40) });

let certificates: TestCertificates;
let server: Server;
let port: number;
let told: { address: string; text: string }[];
let refusals: [string, string][];
const signal = new Signal();
const sockets: { destroy(): void }[] = [];

beforeAll(async () => {
  certificates = await TestCertificates.create();
});
beforeEach(() => {
  told = [];
  refusals = [];
  return start([ADDRESS]);
});
afterEach(async () => {
  vi.useRealTimers();
  await stop();
});
afterAll(() => certificates.remove());

/** A listener that answers each client with its own words. */
async function start(ranges: string[], host = '127.0.0.1'): Promise<void> {
  const onClient = (socket: TLSSocket, address: string) => {
    sockets.push(socket);
    socket.on('error', () => {});
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
      if (!text.endsWith('\n')) return;
      told.push({ address, text: text.trim() });
      socket.end(text);
    });
  };
  const refused = (proxy: string, why: string) => {
    refusals.push([proxy, why]);
    signal.changed();
  };
  const proxies = { ranges, refused };
  server = createTlsListener(readTlsFiles(certificates.files), onClient, { proxies }).server;
  port = await listen(server, 0, host);
}

async function stop(): Promise<void> {
  for (const socket of sockets.splice(0)) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
}

async function restart(...given: Parameters<typeof start>): Promise<void> {
  await stop();
  await start(...given);
}

async function dial(localAddress = ADDRESS): Promise<Socket> {
  const socket = connectTcp({ host: ADDRESS, port, localAddress, noDelay: true });
  socket.on('error', () => {});
  sockets.push(socket);
  await once(socket, 'connect');
  return socket;
}

/** A client behind a proxy, whose header and first flight of TLS are written in these pieces; what it is answered. */
async function say(
  text: string,
  header: Buffer,
  { pieces = (bytes: Buffer) => [bytes], from = ADDRESS } = {},
): Promise<string> {
  const proxy = await dial(from);
  const [near, far] = duplexPair();
  const client = connectTls({
    socket: near,
    ca: readFileSync(certificates.files.ca),
    servername: 'localhost',
  });
  far.once('data', async (hello: Buffer) => {
    far.pause();
    for (const piece of pieces(Buffer.concat([header, hello]))) {
      proxy.write(piece);
      await turns(1);
    }
    far.on('data', (chunk) => proxy.write(chunk)).on('end', () => proxy.end());
    far.resume();
  });
  proxy.on('data', (chunk) => far.write(chunk)).on('close', () => far.end());
  client.write(`${text}\n`);
  let answer = '';
  client.on('data', (chunk) => {
    answer += chunk;
  });
  await new Promise((resolve) => client.on('end', resolve).on('error', resolve));
  client.destroy();
  proxy.destroy();
  return answer.trim();
}

/** Everything that a connection is answered until it is closed. */
async function untilClosed(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  await new Promise((resolve) => socket.once('close', resolve));
  return Buffer.concat(chunks).toString('hex');
}

function everyByte(bytes: Buffer): Buffer[] {
  return Array.from(bytes, (byte) => Buffer.from([byte]));
}

describe('a connection of a proxy', () => {
  it.each([
    ['of version 1', lineHeader(CLIENT), CLIENT],
    ['of version 1, of IPv6', lineHeader('2001:db8::7'), '2001:db8::7'],
    ['of version 2', binaryHeader(CLIENT), CLIENT],
    [
      'of version 2, of IPv6, with additions',
      binaryHeader('2001:db8::7', { additions: addition(4, 4_000) }),
      '2001:db8::7',
    ],
    ['of version 2, of IPv4 mapped into IPv6', binaryHeader(`::ffff:${CLIENT}`), CLIENT],
    ['that names nobody', Buffer.from('PROXY UNKNOWN\r\n'), ADDRESS],
    ['of the proxy itself', binaryHeader('', { command: 0x20, family: 0 }), ADDRESS],
  ])('with a header %s, and TLS in the same packet, is of that client', async (_title, header, address) => {
    expect(await say('hello', header)).toBe('hello');
    expect(told).toEqual([{ address, text: 'hello' }]);
    expect(refusals).toEqual([]);
  });

  it('loses no byte, however header and TLS are cut', async () => {
    const cuts: ((bytes: Buffer) => Buffer[])[] = [
      everyByte,
      (bytes) => [bytes.subarray(0, HEADER.length), bytes.subarray(HEADER.length)],
      (bytes) => [bytes.subarray(0, HEADER.length - 1), bytes.subarray(HEADER.length - 1)],
      (bytes) => [bytes.subarray(0, HEADER.length + 1), bytes.subarray(HEADER.length + 1)],
      (bytes) => [
        bytes.subarray(0, 5),
        bytes.subarray(5, HEADER.length + 100),
        bytes.subarray(HEADER.length + 100),
      ],
    ];
    const text = 'x'.repeat(100_000);
    for (const pieces of cuts) expect(await say(text, HEADER, { pieces })).toBe(text);
    expect(told.map(({ address }) => address)).toEqual(cuts.map(() => CLIENT));
  });

  it('is told apart from others of the same proxy', async () => {
    const clients = Array.from({ length: 20 }, (_, index) => `192.0.2.${index + 1}`);
    const answers = await Promise.all(clients.map((client) => say(client, lineHeader(client))));
    expect(answers).toEqual(clients);
    for (const { address, text } of told) expect(address).toBe(text);
  });

  it.each([
    ['TLS at once', Buffer.from([22, 3, 1, 0, 200, 1]), 'no PROXY header'],
    ['another protocol', Buffer.from('GET / HTTP/1.1\r\n'), 'no PROXY header'],
    ['a header of UDP', binaryHeader(CLIENT, { family: 0x12 }), 'address family 12'],
    ['a line without an end', Buffer.from(`PROXY TCP4 ${'1'.repeat(200)}`), 'a line of more than 107 bytes'],
  ])('that sends %s is closed without a word, and told', async (_title, bytes, why) => {
    const socket = await dial();
    socket.write(bytes);
    expect(await untilClosed(socket)).toBe('');
    expect(refusals).toEqual([[ADDRESS, why]]);
    expect(await say('hello', HEADER)).toBe('hello');
  });

  it('that sends no whole header is closed after as long as a TLS handshake may take', async () => {
    vi.useFakeTimers(CLOCK);
    const socket = await dial();
    const ended = untilClosed(socket);
    socket.write(HEADER.subarray(0, -1));
    await turns();
    await vi.advanceTimersByTimeAsync(4_999);
    expect(refusals).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(await ended).toBe('');
    expect(refusals).toEqual([[ADDRESS, 'no whole header in time']]);
  });

  it('that goes amid its header is told; that goes without a byte, as who looks for an open port, is not', async () => {
    const looking = await dial();
    looking.end();
    await untilClosed(looking);
    const leaving = await dial();
    leaving.end(HEADER.subarray(0, 20));
    await untilClosed(leaving);
    await signal.until(() => refusals[0]);
    expect(refusals).toEqual([[ADDRESS, 'it went amid its header']]);
  });

  it('with a second header ends at the first', async () => {
    const socket = await dial();
    socket.write(Buffer.concat([HEADER, lineHeader('198.51.100.9')]));
    await untilClosed(socket);
    expect([told, refusals]).toEqual([[], []]);
  });
});

describe('a connection of anybody else', () => {
  it('is of its own address, and begins with TLS', async () => {
    expect(await say('hello', Buffer.alloc(0), { from: OTHER_ADDRESS })).toBe('hello');
    expect(told).toEqual([{ address: OTHER_ADDRESS, text: 'hello' }]);
  });

  it.each([lineHeader(CLIENT), HEADER])(
    'that begins with a header ends as any without TLS does',
    async (header) => {
      expect(await say('hello', header, { from: OTHER_ADDRESS })).toBe('');
      const [told1, told2] = await Promise.all(
        [header, Buffer.from('GET / HTTP/1.1\r\n\r\n')].map(async (bytes) => {
          const socket = await dial(OTHER_ADDRESS);
          socket.write(bytes);
          return await untilClosed(socket);
        }),
      );
      expect(told1).toBe(told2);
      expect([told, refusals]).toEqual([[], []]);
    },
  );
});

describe('the proxies', () => {
  it('are ranges, of IPv4 mapped into IPv6 too', async () => {
    for (const ranges of [['10.0.0.0/8', '127.0.0.0/30'], [`::ffff:${ADDRESS}`]]) {
      await restart(ranges);
      expect(await say('hello', HEADER)).toBe('hello');
    }
    await restart([ADDRESS], '::ffff:127.0.0.1');
    expect(await say('hello', HEADER)).toBe('hello');
    expect(told.map(({ address }) => address)).toEqual([CLIENT, CLIENT, CLIENT]);
  });

  it('are none where none is named: a header is no TLS', async () => {
    await restart([]);
    expect(await say('hello', HEADER)).toBe('');
    expect(await say('hello', Buffer.alloc(0))).toBe('hello');
    expect(told).toEqual([{ address: ADDRESS, text: 'hello' }]);
  });
});
