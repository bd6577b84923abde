/** The gated stream between a socket and the broker. */
import { once } from 'node:events';
import { duplexPair } from 'node:stream';
import { describe, expect } from 'vitest';
import { connectPacket, lengthBytes, publishPacket } from '#support/bridge-mqtt-peer.ts';
import { turns } from '#support/bridge-signal.ts';
import { edgeTest } from '#support/bridge-test.ts';
import { SizeGate } from '../../../bridge/mqtt/size-gate.ts';

const CONNECT = connectPacket({ username: 'u', password: 'p' });

/** `gated` is a gate between a socket and the broker. */
const it = edgeTest.extend('gated', ({ clock: _clock }, { onCleanup }) => {
  // `stream` is the socket under the gate, `client` its other end; `read` has the broker's bytes.
  const [stream, client] = duplexPair({ allowHalfOpen: false });
  const refused: string[] = [];
  const errors: Error[] = [];
  const read: Buffer[] = [];
  const gate = new SizeGate(stream, (why) => refused.push(why));
  onCleanup(() => void gate.destroy());
  gate.on('error', (error) => errors.push(error));
  gate.on('data', (chunk: Buffer) => read.push(chunk));
  client.on('error', () => {});
  client.resume();
  const closed = once(client, 'end');
  return { gate, stream, client, refused, read, errors, closed };
});

describe('a size gate', () => {
  it('passes bytes unchanged in both directions', async ({ gated: { gate, client, read } }) => {
    const received: Buffer[] = [];
    client.on('data', (chunk: Buffer) => received.push(chunk));
    const bytes = Buffer.concat([CONNECT, publishPacket('t', 'payload')]);
    client.write(bytes.subarray(0, 3));
    client.write(bytes.subarray(3));
    gate.write(Buffer.from('answer'));
    await turns();
    expect(Buffer.concat(read)).toEqual(bytes);
    expect(Buffer.concat(received).toString()).toBe('answer');
  });

  it('stops reading while the broker does not read', async ({ gated: { gate, client, read } }) => {
    gate.pause();
    client.write(CONNECT);
    for (let count = 0; count < 10; count++) client.write(publishPacket('t', Buffer.alloc(100_000)));
    await turns(100);
    expect(client.writableLength).toBeGreaterThan(400_000);
    gate.resume();
    await turns(100);
    expect(client.writableLength).toBe(0);
    expect(Buffer.concat(read).length).toBeGreaterThan(1_000_000);
  });

  it('makes the broker’s writes wait while the client does not read', async ({ gated: { gate, client } }) => {
    client.pause();
    let taken = 0;
    for (let count = 0; count < 20; count++)
      gate.write(Buffer.alloc(50_000), () => {
        taken += 1;
      });
    await turns(50);
    expect(taken).toBeLessThan(20);
    expect(gate.writableNeedDrain).toBe(true);
    client.resume();
    await turns(50);
    expect(taken).toBe(20);
  });

  it('closes a client that announces 10 MB', async ({ gated: { client, refused, read, closed } }) => {
    client.write(CONNECT);
    await turns();
    client.write(Buffer.concat([Buffer.from([0x32]), lengthBytes(10_000_000)]));
    await closed;
    expect(refused).toEqual(['packet of 10000000 bytes exceeds the limit of 131072']);
    expect(Buffer.concat(read)).toEqual(CONNECT);
  });

  it('closes a client whose CONNECT has 256 MB', async ({ gated: { client, refused, read, closed } }) => {
    client.write(Buffer.from([0x10, 0xff, 0xff, 0xff, 0x7f]));
    await closed;
    expect(refused).toEqual(['packet of 268435455 bytes exceeds the limit of 16384']);
    expect(read).toEqual([]);
  });

  it('after 10 s closes a client that has sent nothing', async ({ clock, gated: { refused, closed } }) => {
    await clock.pass(9_999);
    expect(refused).toEqual([]);
    await clock.pass(1);
    await closed;
    expect(refused).toEqual(['no CONNECT in time']);
  });

  it('closes a client whose CONNECT takes 10 s', async ({ clock, gated: { client, refused, closed } }) => {
    for (let second = 0; second < 10; second++) {
      expect(refused).toEqual([]);
      client.write(CONNECT.subarray(second, second + 1));
      await clock.pass(1_000);
      await turns();
    }
    await closed;
    expect(refused).toEqual(['no CONNECT in time']);
  });

  it('keeps a client that is silent after CONNECT', async ({ clock, gated: { gate, client, refused } }) => {
    client.write(CONNECT);
    await turns();
    await clock.pass(3_600_000);
    expect(refused).toEqual([]);
    expect(gate.destroyed).toBe(false);
  });

  it('is destroyed when its client ends', async ({ gated: { gate, client } }) => {
    client.write(CONNECT);
    client.end();
    await turns();
    expect(gate.destroyed).toBe(true);
  });

  it('is destroyed with the error of its client', async ({ gated: { gate, stream, errors } }) => {
    stream.destroy(new Error('read ECONNRESET'));
    await turns();
    expect(gate.destroyed).toBe(true);
    expect(errors.map(({ message }) => message)).toEqual(['read ECONNRESET']);
  });

  it('closes the client after the broker’s last write', async ({ gated: { gate, client, closed } }) => {
    const received: Buffer[] = [];
    client.on('data', (chunk: Buffer) => received.push(chunk));
    gate.end(Buffer.from('last'));
    await closed;
    expect(Buffer.concat(received).toString()).toBe('last');
  });

  it('ends all pending writes when the client leaves', async ({ gated: { gate, stream, client } }) => {
    client.pause();
    const outcomes: unknown[] = [];
    for (let count = 0; count < 20; count++)
      gate.write(Buffer.alloc(50_000), (error) => outcomes.push(error));
    await turns();
    stream.destroy();
    await turns();
    expect(outcomes.length).toBe(20);
    expect(gate.destroyed).toBe(true);
  });
});
