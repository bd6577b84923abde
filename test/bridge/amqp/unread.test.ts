/** A client that does not read: it is read up to a limit, and closed after three heartbeats (rule 9). */
import { describe, expect } from 'vitest';
import { type AmqpClients, amqpTest, deliver, type OpenAmqpClient, takeSeqs } from '#support/bridge-amqp.ts';
import { HEARTBEAT, publishFrames } from '#support/bridge-amqp-frames.ts';
import { type TestClock, turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const KIB = 1_024;

/** `unread` opens a consumer that does not read, with this many bytes of deliveries waiting. */
const it = amqpTest.extend('unread', ({ amqp }) => async (bytes: number, heartbeat = 2) => {
  const client = await amqp.openConsumer({ noAck: true }, { tune: { heartbeat } });
  client.peer.stream.pause();
  await fill(client, bytes);
  return client;
});

async function fill({ link, events }: OpenAmqpClient, bytes: number): Promise<void> {
  const body = 'x'.repeat(16 * KIB);
  const count = Math.ceil(bytes / body.length);
  const target = events.deliveredCount + count;
  for (let lease = 1; lease <= count; lease++) link.send(deliver(lease, { body }));
  while (events.deliveredCount < target) await turns(1);
  await turns();
}

/** Sends a heartbeat each second. */
async function beat(clock: TestClock, { peer }: OpenAmqpClient, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    peer.write(HEARTBEAT);
    await clock.pass(1_000);
  }
}

describe('output that a client does not read', () => {
  it('the bridge still reads from the client while less than 1 MiB waits', async ({ unread }) => {
    const client = await unread(900 * KIB);
    expect(client.stream.writableNeedDrain).toBe(true);
    client.peer.write(publishFrames('still read'));
    expect((await client.link.take('publish')).body).toBe('still read');
  });

  it('the bridge does not read from the client while more than 1 MiB waits', async ({ unread }) => {
    const client = await unread(LIMIT.amqpOutputBytes + 100 * KIB);
    client.peer.write(publishFrames('held back'));
    await turns(50);
    expect(client.stream.isPaused()).toBe(true);
    expect(client.link.received.some(({ kind }) => kind === 'publish')).toBe(false);
    client.peer.stream.resume();
    expect((await client.link.take('publish')).body).toBe('held back');
  });

  it.for([
    ['read', 100 * KIB],
    ['not read', 1_200 * KIB],
  ] as const)(
    'closes the client after three heartbeats without progress, even if the bridge does %s from it [C-6.3]',
    async ([_, bytes], { clock, unread }) => {
      const client = await unread(bytes);
      await beat(clock, client, 5);
      expect(client.events.endedWhy).toEqual([]);
      await beat(clock, client, 2);
      expect(client.events.endedWhy.length).toBe(1);
      expect(client.stream.destroyed).toBe(true);
      await client.link.untilClosed();
    },
  );

  it('closes the client after 30 s if heartbeats are off', async ({ clock, unread }) => {
    const client = await unread(100 * KIB, 0);
    await beat(clock, client, 29);
    expect(client.events.endedWhy).toEqual([]);
    await beat(clock, client, 2);
    expect(client.events.endedWhy.length).toBe(1);
    await client.link.untilClosed();
  });

  it('the time until the bridge closes the client starts again each time the client reads something', async ({
    clock,
    unread,
  }) => {
    const client = await unread(1_200 * KIB);
    for (let round = 0; round < 5; round++) {
      await beat(clock, client, 5);
      // Reads one chunk; the rest still waits.
      client.peer.stream.read();
      await turns();
    }
    expect(client.events.endedWhy).toEqual([]);
    await beat(clock, client, 7);
    expect(client.events.endedWhy.length).toBe(1);
  });

  it('the timeout ends when the client has read everything', async ({ clock, unread }) => {
    const client = await unread(1_200 * KIB);
    await beat(clock, client, 5);
    client.peer.stream.resume();
    await turns();
    await beat(clock, client, 20);
    expect(client.events.endedWhy).toEqual([]);
    client.peer.stream.pause();
    await fill(client, 100 * KIB);
    await beat(clock, client, 5);
    expect(client.events.endedWhy).toEqual([]);
  });
});

describe('a client that reads slowly', () => {
  it('is not closed for lack of progress, even if its deliveries came in one large batch', async ({
    clock,
    amqp,
  }) => {
    const client = await amqp.openConsumer({ noAck: true }, { tune: { heartbeat: 2 } });
    client.peer.stream.pause();
    const body = 'x'.repeat(16 * KIB);
    client.link.send(...Array.from({ length: 40 }, (_, index) => deliver(index + 1, { body })));
    while (client.events.deliveredCount < 40) await turns(1);
    for (let second = 0; second < 10; second++) {
      await beat(clock, client, 1);
      client.peer.stream.read(64 * KIB);
      await turns();
    }
    expect(client.events.endedWhy).toEqual([]);
  });
});

describe('a client from which the bridge did not read for 20 s', () => {
  /** A client that the bridge does not read for 20 s because of its open publishes; then they are stored. */
  async function resumedClient(clock: TestClock, amqp: AmqpClients): Promise<OpenAmqpClient> {
    const client = await amqp.openConsumer({}, { tune: { heartbeat: 2 } });
    client.peer.write(...Array(LIMIT.openPublishes).fill(publishFrames('x')));
    await clock.pass(10);
    const seqs = await takeSeqs(client.link, LIMIT.openPublishes);
    expect(client.stream.isPaused()).toBe(true);
    await clock.pass(20_000);
    client.link.send({ kind: 'stored', seqs });
    while (client.stream.isPaused()) await turns(1);
    return client;
  }

  it('is not closed because of heartbeats from that time', async ({ clock, amqp }) => {
    const client = await resumedClient(clock, amqp);
    await clock.pass(5_900);
    expect(client.events.endedWhy).toEqual([]);
    client.peer.write(HEARTBEAT);
    await clock.pass(5_900);
    expect(client.events.endedWhy).toEqual([]);
  });

  it('is closed three heartbeats after the bridge reads again, if silent', async ({ clock, amqp }) => {
    const client = await resumedClient(clock, amqp);
    await clock.pass(7_000);
    expect(client.events.endedWhy).toEqual(['missed heartbeats']);
  });
});

describe('a delivery', () => {
  it('counts in the credit with the bytes that the object named', async ({ consumer }) => {
    for (const lease of [1, 2]) consumer.link.send(deliver(lease, { bytes: 100_000 }));
    expect((await consumer.link.take('credit')).drainedBytes).toBe(200_000);
    await consumer.peer.takeContent(METHOD.basicDeliver);
  });
});
