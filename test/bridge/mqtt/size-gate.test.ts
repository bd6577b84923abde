/** The gated stream: what the broker reads and writes through it, and when it shuts. */
import { type Duplex, duplexPair } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { SizeGate } from '../../../bridge/mqtt/size-gate.ts';
import { connectPacket, lengthBytes, publishPacket } from '../../support/bridge-mqtt-peer.ts';
import { CLOCK, Signal, turns } from '../../support/bridge-signal.ts';

const CONNECT = connectPacket({ username: 'u', password: 'p' });

interface Gated {
  gate: SizeGate;
  /** The socket under the gate, and the client's end of it. */
  stream: Duplex;
  client: Duplex;
  refused: string[];
  /** All that came through to the broker. */
  read: Buffer[];
  errors: Error[];
  untilClosed(): Promise<true>;
}

function gated(): Gated {
  const [stream, client] = duplexPair({ allowHalfOpen: false });
  const refused: string[] = [];
  const errors: Error[] = [];
  const read: Buffer[] = [];
  const signal = new Signal();
  const gate = new SizeGate(stream, (why) => refused.push(why));
  gate.on('error', (error) => errors.push(error));
  gate.on('data', (chunk: Buffer) => read.push(chunk));
  client.on('error', () => {});
  client.resume();
  let isClosed = false;
  client.on('end', () => {
    isClosed = true;
    signal.changed();
  });
  return {
    gate,
    stream,
    client,
    refused,
    read,
    errors,
    untilClosed: () => signal.until(() => isClosed || undefined),
  };
}

afterEach(() => {
  vi.useRealTimers();
});

describe('a size gate', () => {
  it('passes bytes both ways as they are', async () => {
    const { gate, client, read } = gated();
    const received: Buffer[] = [];
    client.on('data', (chunk: Buffer) => received.push(chunk));
    const bytes = Buffer.concat([CONNECT, publishPacket('t', 'payload')]);
    client.write(bytes.subarray(0, 3));
    client.write(bytes.subarray(3));
    gate.write(Buffer.from('answer'));
    await turns();
    expect(Buffer.concat(read)).toEqual(bytes);
    expect(Buffer.concat(received).toString()).toBe('answer');
    gate.destroy();
  });

  it('stops reading from a client whose broker does not read, and goes on when it does', async () => {
    const { gate, client, read } = gated();
    gate.pause();
    client.write(CONNECT);
    for (let count = 0; count < 10; count++) client.write(publishPacket('t', Buffer.alloc(100_000)));
    await turns(100);
    expect(client.writableLength).toBeGreaterThan(400_000);
    gate.resume();
    await turns(100);
    expect(client.writableLength).toBe(0);
    expect(Buffer.concat(read).length).toBeGreaterThan(1_000_000);
    gate.destroy();
  });

  it('makes the broker wait for a client that does not read', async () => {
    const { gate, client } = gated();
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
    gate.destroy();
  });

  it('closes at the header what is too large, and the broker sees nothing of it', async () => {
    const { client, refused, read, untilClosed } = gated();
    client.write(CONNECT);
    await turns();
    client.write(Buffer.concat([Buffer.from([0x32]), lengthBytes(10_000_000)]));
    await untilClosed();
    expect(refused).toEqual(['a packet of 10000000 bytes']);
    expect(Buffer.concat(read)).toEqual(CONNECT);
  });

  it('closes a client that announces 256 MB before it has connected', async () => {
    const { client, refused, read, untilClosed } = gated();
    client.write(Buffer.from([0x10, 0xff, 0xff, 0xff, 0x7f]));
    await untilClosed();
    expect(refused).toEqual(['a packet of 268435455 bytes']);
    expect(read).toEqual([]);
  });

  it('closes a client that says nothing for 10 s', async () => {
    vi.useFakeTimers(CLOCK);
    const { refused, untilClosed } = gated();
    await vi.advanceTimersByTimeAsync(9_999);
    expect(refused).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await untilClosed();
    expect(refused).toEqual(['no CONNECT in time']);
  });

  it('closes a client after 10 s that sends one byte a second and never finishes its CONNECT', async () => {
    vi.useFakeTimers(CLOCK);
    const { client, refused, untilClosed } = gated();
    for (let second = 0; second < 10; second++) {
      expect(refused).toEqual([]);
      client.write(CONNECT.subarray(second, second + 1));
      await vi.advanceTimersByTimeAsync(1_000);
      await turns();
    }
    await untilClosed();
    expect(refused).toEqual(['no CONNECT in time']);
  });

  it('lets a client that has connected be silent', async () => {
    vi.useFakeTimers(CLOCK);
    const { gate, client, refused } = gated();
    client.write(CONNECT);
    await turns();
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(refused).toEqual([]);
    expect(gate.destroyed).toBe(false);
    gate.destroy();
  });

  it('ends with its client', async () => {
    const { gate, client } = gated();
    client.write(CONNECT);
    client.end();
    await turns();
    expect(gate.destroyed).toBe(true);
  });

  it('fails with its client', async () => {
    const { gate, stream, errors } = gated();
    stream.destroy(new Error('read ECONNRESET'));
    await turns();
    expect(gate.destroyed).toBe(true);
    expect(errors.map(({ message }) => message)).toEqual(['read ECONNRESET']);
  });

  it('closes its client when the broker is done with it, with all that was written', async () => {
    const { gate, client, untilClosed } = gated();
    const received: Buffer[] = [];
    client.on('data', (chunk: Buffer) => received.push(chunk));
    gate.end(Buffer.from('last'));
    await untilClosed();
    expect(Buffer.concat(received).toString()).toBe('last');
  });

  it('lets nobody wait for a client that is gone', async () => {
    const { gate, stream, client } = gated();
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
