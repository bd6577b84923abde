/** A client that does not read: still read itself up to a limit, given time by its heartbeat, then closed (rule 9). */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { deliveryOf, type OpenAmqpClient, openConsumer, takeSeqs } from '../../support/bridge-amqp.ts';
import { frame, publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const KIB = 1_024;
const HEARTBEAT = frame(8, 0, Buffer.alloc(0));

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(() => {
  vi.useFakeTimers(CLOCK);
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await turns();
}

/** A consumer that reads nothing more, with so many bytes of deliveries before it. */
async function unreadClient(bytes: number, heartbeat = 2): Promise<OpenAmqpClient> {
  const client = await openConsumer(edge, { noAck: true }, { tune: { heartbeat } });
  client.peer.stream.pause();
  await fill(client, bytes);
  return client;
}

async function fill({ link, events }: OpenAmqpClient, bytes: number): Promise<void> {
  const body = 'x'.repeat(16 * KIB);
  const count = Math.ceil(bytes / body.length);
  const target = events.deliveredCount + count;
  for (let lease = 1; lease <= count; lease++)
    link.send({ kind: 'deliver', channel: 1, tag: 'ct', delivery: deliveryOf(lease, { body }) });
  while (events.deliveredCount < target) await turns(1);
  await turns();
}

/** The client is alive and says so, each second, but reads nothing. */
async function beat({ peer }: OpenAmqpClient, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    peer.write(HEARTBEAT);
    await pass(1_000);
  }
}

describe('a client that does not read', () => {
  it('is read all the same while less than 1 MiB waits for it', async () => {
    const client = await unreadClient(900 * KIB);
    expect(client.stream.writableNeedDrain).toBe(true);
    client.peer.write(publishFrames('still read'));
    expect((await client.link.take('publish')).body).toBe('still read');
    client.peer.stream.destroy();
  });

  it('is not read beyond that, and is again once it has read', async () => {
    const client = await unreadClient(LIMIT.amqpOutputBytes + 100 * KIB);
    client.peer.write(publishFrames('held back'));
    await turns(50);
    expect(client.stream.isPaused()).toBe(true);
    expect(client.link.received.some(({ kind }) => kind === 'publish')).toBe(false);
    client.peer.stream.resume();
    expect((await client.link.take('publish')).body).toBe('held back');
    client.peer.stream.destroy();
  });

  it.each([
    ['read', 100 * KIB],
    ['not read', 1_200 * KIB],
  ])('is closed when nothing went out for three heartbeats, itself %s [C-6.3]', async (_title, bytes) => {
    const client = await unreadClient(bytes);
    await beat(client, 5);
    expect(client.events.closedWhy).toEqual([]);
    await beat(client, 2);
    expect(client.events.closedWhy.length).toBe(1);
    expect(client.stream.destroyed).toBe(true);
    await client.link.untilClosed();
  });

  it('and agreed on no heartbeat is closed after 30 s', async () => {
    const client = await unreadClient(100 * KIB, 0);
    await beat(client, 29);
    expect(client.events.closedWhy).toEqual([]);
    await beat(client, 2);
    expect(client.events.closedWhy.length).toBe(1);
    await client.link.untilClosed();
  });

  it('has its time anew with whatever it reads', async () => {
    const client = await unreadClient(1_200 * KIB);
    for (let round = 0; round < 5; round++) {
      await beat(client, 5);
      // One piece of what waits: the rest stays where it is.
      client.peer.stream.read();
      await turns();
    }
    expect(client.events.closedWhy).toEqual([]);
    await beat(client, 7);
    expect(client.events.closedWhy.length).toBe(1);
  });

  it('and then reads all has all the time of the world', async () => {
    const client = await unreadClient(1_200 * KIB);
    await beat(client, 5);
    client.peer.stream.resume();
    await turns();
    await beat(client, 20);
    expect(client.events.closedWhy).toEqual([]);
    client.peer.stream.pause();
    await fill(client, 100 * KIB);
    await beat(client, 5);
    expect(client.events.closedWhy).toEqual([]);
    client.peer.stream.destroy();
  });
});

describe('a client that reads slowly', () => {
  it('is not closed while it does: what one turn brought is not one piece', async () => {
    const client = await openConsumer(edge, { noAck: true }, { tune: { heartbeat: 2 } });
    client.peer.stream.pause();
    const body = 'x'.repeat(16 * KIB);
    const frames = Array.from({ length: 40 }, (_, index) => deliveryOf(index + 1, { body }));
    client.link.send(
      ...frames.map((delivery) => ({ kind: 'deliver', channel: 1, tag: 'ct', delivery }) as const),
    );
    while (client.events.deliveredCount < frames.length) await turns(1);
    for (let second = 0; second < 10; second++) {
      await beat(client, 1);
      client.peer.stream.read(64 * KIB);
      await turns();
    }
    expect(client.events.closedWhy).toEqual([]);
    client.peer.stream.destroy();
  });
});

describe('a client that was not read for a while', () => {
  /** As many publishes open as may be: the bridge reads no more of the client. */
  async function heldClient(): Promise<OpenAmqpClient & { seqs: number[] }> {
    const client = await openConsumer(edge, {}, { tune: { heartbeat: 2 } });
    client.peer.write(...Array(LIMIT.openPublishes).fill(publishFrames('x')));
    await pass(10);
    const seqs = await takeSeqs(client, LIMIT.openPublishes);
    expect(client.stream.isPaused()).toBe(true);
    return { ...client, seqs };
  }

  it('is not missed while we do not read it, nor when we begin again: it has three heartbeats', async () => {
    const client = await heldClient();
    await pass(20_000);
    client.link.send({ kind: 'stored', seqs: client.seqs });
    while (client.stream.isPaused()) await turns(1);
    await pass(5_900);
    expect(client.events.closedWhy).toEqual([]);
    client.peer.write(HEARTBEAT);
    await pass(5_900);
    expect(client.events.closedWhy).toEqual([]);
    client.peer.stream.destroy();
  });

  it('and is gone meanwhile is missed three heartbeats after we began again', async () => {
    const client = await heldClient();
    await pass(20_000);
    client.link.send({ kind: 'stored', seqs: client.seqs });
    while (client.stream.isPaused()) await turns(1);
    await pass(7_000);
    expect(client.events.closedWhy).toEqual(['missed heartbeats']);
  });
});

describe('a delivery', () => {
  it('counts in the window as what the object says', async () => {
    const client = await openConsumer(edge);
    for (const lease of [1, 2])
      client.link.send({
        kind: 'deliver',
        channel: 1,
        tag: 'ct',
        delivery: deliveryOf(lease, { bytes: 100_000 }),
      });
    expect((await client.link.take('credit')).drainedBytes).toBe(200_000);
    await client.peer.takeContent(METHOD.basicDeliver);
    client.peer.stream.destroy();
  });
});
