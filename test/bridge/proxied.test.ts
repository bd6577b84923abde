/** Listeners with proxies in front: the accepted PROXY headers, and the connections that are closed. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { describe, expect } from 'vitest';
import { Signal, turns } from '#support/bridge-signal.ts';
import type { Serve } from '#support/bridge-test.ts';
import { ADDRESS, bridgeTest, OTHER_ADDRESS, type TestCertificates } from '#support/bridge-whole.ts';
import { addition, binaryHeader, lineHeader } from '#support/proxy-headers.ts';
import { createTlsListener, type TlsClient } from '../../bridge/tls.ts';
import { readTlsFiles } from '../../bridge/tls-files.ts';

const CLIENT = '192.0.2.7';
const IPV6 = '2001:db8::7';
const HEADER = binaryHeader(CLIENT, { additions: addition(4, 40) });

/** A listener that echoes each client's line, with proxies in these ranges. */
class EchoListener {
  /** The lines of all clients. */
  readonly messages: { address: string; text: string }[] = [];
  /** The rejected proxies and the reasons. */
  readonly rejections: [proxy: string, why: string][] = [];
  readonly signal = new Signal();
  readonly #certificates: TestCertificates;
  readonly #serve: Serve;
  #port = 0;

  constructor(certificates: TestCertificates, serve: Serve) {
    this.#certificates = certificates;
    this.#serve = serve;
  }

  /** Starts a listener; later clients use it. */
  async start(ranges: string[], host = ADDRESS): Promise<void> {
    const onClient = ({ socket, address }: TlsClient) => {
      socket.on('error', () => {});
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk;
        if (!text.endsWith('\n')) return;
        this.messages.push({ address, text: text.trim() });
        socket.end(text);
      });
    };
    const refused = (proxy: string, why: string) => {
      this.rejections.push([proxy, why]);
      this.signal.changed();
    };
    const files = readTlsFiles(this.#certificates.files);
    const { server } = createTlsListener(files, onClient, { proxies: { ranges, refused } });
    this.#port = await this.#serve(server, 0, host);
  }

  async dial(localAddress = ADDRESS): Promise<Socket> {
    const socket = connectTcp({ host: ADDRESS, port: this.#port, localAddress, noDelay: true });
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }

  /** The answer to a client whose header and first TLS flight are written in these pieces. */
  async say(
    text: string,
    header: Buffer,
    { pieces = (bytes: Buffer) => [bytes], from = ADDRESS } = {},
  ): Promise<string> {
    const proxy = await this.dial(from);
    const [near, far] = duplexPair();
    const ca = readFileSync(this.#certificates.files.ca);
    const client = connectTls({ socket: near, ca, servername: 'localhost' });
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
}

/** `listener` has one proxy, at ADDRESS. */
const it = bridgeTest.extend('listener', async ({ certificates, serve }) => {
  const listener = new EchoListener(certificates, serve);
  await listener.start([ADDRESS]);
  return listener;
});

/** All bytes that a connection receives until it is closed, in hex. */
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
  it.for([
    ['of version 1', lineHeader(CLIENT), CLIENT],
    ['of version 1, of IPv6', lineHeader(IPV6), IPV6],
    ['of version 2', binaryHeader(CLIENT), CLIENT],
    ['of version 2, with additions', binaryHeader(IPV6, { additions: addition(4, 4_000) }), IPV6],
    ['of version 2, of IPv4 mapped into IPv6', binaryHeader(`::ffff:${CLIENT}`), CLIENT],
    ['of no client', Buffer.from('PROXY UNKNOWN\r\n'), ADDRESS],
    ['of the proxy itself', binaryHeader('', { command: 0x20, family: 0 }), ADDRESS],
  ] as const)(
    'gets, with a header %s, the address in the header, or the proxy’s if it has none',
    async ([_, header, address], { listener }) => {
      expect(await listener.say('hello', header)).toBe('hello');
      expect(listener.messages).toEqual([{ address, text: 'hello' }]);
      expect(listener.rejections).toEqual([]);
    },
  );

  it('loses no byte, wherever header and TLS are cut', async ({ listener }) => {
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
    for (const pieces of cuts) expect(await listener.say(text, HEADER, { pieces })).toBe(text);
    expect(listener.messages.map(({ address }) => address)).toEqual(cuts.map(() => CLIENT));
  });

  it('has the address of its own client, if twenty clients share a proxy', async ({ listener }) => {
    const clients = Array.from({ length: 20 }, (_, index) => `192.0.2.${index + 1}`);
    const answers = await Promise.all(clients.map((client) => listener.say(client, lineHeader(client))));
    expect(answers).toEqual(clients);
    for (const { address, text } of listener.messages) expect(address).toBe(text);
  });

  it.for([
    ['TLS and no header', Buffer.from([22, 3, 1, 0, 200, 1]), 'no PROXY header'],
    ['another protocol', Buffer.from('GET / HTTP/1.1\r\n'), 'no PROXY header'],
    ['a header of UDP', binaryHeader(CLIENT, { family: 0x12 }), 'unsupported address family 12'],
    ['an endless line', Buffer.from(`PROXY TCP4 ${'1'.repeat(200)}`), 'header line longer than 107 bytes'],
  ] as const)('is closed and reported for %s', async ([_, bytes, why], { listener }) => {
    const socket = await listener.dial();
    socket.write(bytes);
    expect(await untilClosed(socket)).toBe('');
    expect(listener.rejections).toEqual([[ADDRESS, why]]);
    expect(await listener.say('hello', HEADER)).toBe('hello');
  });

  it('is closed and reported after 5 s if its header is incomplete', async ({ clock, listener }) => {
    const socket = await listener.dial();
    const ended = untilClosed(socket);
    socket.write(HEADER.subarray(0, -1));
    await clock.pass(4_999);
    expect(listener.rejections).toEqual([]);
    await clock.pass(1);
    expect(await ended).toBe('');
    expect(listener.rejections).toEqual([[ADDRESS, 'no complete header in time']]);
  });

  it('is reported if it ends within its header; one without a byte is not', async ({ listener }) => {
    const looking = await listener.dial();
    looking.end();
    await untilClosed(looking);
    const leaving = await listener.dial();
    leaving.end(HEADER.subarray(0, 20));
    await untilClosed(leaving);
    await listener.signal.until(() => listener.rejections[0]);
    expect(listener.rejections).toEqual([[ADDRESS, 'connection closed in the middle of the header']]);
  });

  it('is closed if it has a second header', async ({ listener }) => {
    const socket = await listener.dial();
    socket.write(Buffer.concat([HEADER, lineHeader('198.51.100.9')]));
    await untilClosed(socket);
    expect([listener.messages, listener.rejections]).toEqual([[], []]);
  });
});

describe('a connection of another host', () => {
  it('has its own address and starts with TLS', async ({ listener }) => {
    expect(await listener.say('hello', Buffer.alloc(0), { from: OTHER_ADDRESS })).toBe('hello');
    expect(listener.messages).toEqual([{ address: OTHER_ADDRESS, text: 'hello' }]);
  });

  it.for([lineHeader(CLIENT), HEADER])(
    'is closed with a PROXY header like one with any other bytes that are not TLS',
    async (header, { listener }) => {
      expect(await listener.say('hello', header, { from: OTHER_ADDRESS })).toBe('');
      const [first, second] = await Promise.all(
        [header, Buffer.from('GET / HTTP/1.1\r\n\r\n')].map(async (bytes) => {
          const socket = await listener.dial(OTHER_ADDRESS);
          socket.write(bytes);
          return await untilClosed(socket);
        }),
      );
      expect(first).toBe(second);
      expect([listener.messages, listener.rejections]).toEqual([[], []]);
    },
  );
});

describe('the configured proxies', () => {
  it('may be ranges, and IPv4 addresses mapped into IPv6', async ({ listener }) => {
    for (const ranges of [['10.0.0.0/8', '127.0.0.0/30'], [`::ffff:${ADDRESS}`]]) {
      await listener.start(ranges);
      expect(await listener.say('hello', HEADER)).toBe('hello');
    }
    await listener.start([ADDRESS], '::ffff:127.0.0.1');
    expect(await listener.say('hello', HEADER)).toBe('hello');
    expect(listener.messages.map(({ address }) => address)).toEqual([CLIENT, CLIENT, CLIENT]);
  });

  it('may be none: then a connection with a PROXY header is closed', async ({ listener }) => {
    await listener.start([]);
    expect(await listener.say('hello', HEADER)).toBe('');
    expect(await listener.say('hello', Buffer.alloc(0))).toBe('hello');
    expect(listener.messages).toEqual([{ address: ADDRESS, text: 'hello' }]);
  });
});
