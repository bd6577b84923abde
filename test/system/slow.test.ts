/** A consumer that never reads its socket costs one window of memory, and affects no other client. */
import type { Duplex } from 'node:stream';
import type { ChannelModel } from 'amqplib';
import { describe, expect, it } from 'vitest';
import { residentMib } from '#support/process-memory.ts';
import { openConnection } from '#support/returning-partner.ts';
import { eventually, type TestStack } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { VhostCaller } from '#support/vhost-caller.ts';
import type { SeededKey } from '../../tools/seed.ts';

const BATCH = 500;
const PAYLOAD_CHARS = 250;
/** As many as a queue holds, because dropping is not the subject here. */
const MESSAGES = 100_000;
/** Messages consumed before the measurement: objects and processes have done their usual growth by then. */
const WARM_UP = 90_000;
const GROWTH_MIB = 32;
/** [C-6.4] */
const QUEUE_BYTES = 64 * 1024 * 1024;
const LARGE_PAYLOAD_CHARS = 16 * 1024;
const LARGE_BATCH = 32;

describe('a consumer that never reads', () => {
  const stack = suiteStack({ bridgeProcess: true });

  const open = async (key: SeededKey, name: string) => {
    const connection = await openConnection(stack.partnerOptions(key));
    const channel = await connection.createChannel();
    return { connection, channel, queue: `vcp.${stack.credentials.organization.slug}.${name}` };
  };

  const consume = async (key: SeededKey, name: string) => {
    const consumer = { ...(await open(key, name)), received: 0 };
    await consumer.channel.consume(consumer.queue, (message) => {
      if (message) consumer.channel.ack(message);
      consumer.received += 1;
    });
    return consumer;
  };

  /** From before its consume on, the client reads nothing from its TLS socket, not even the consume-ok. */
  const consumeWithoutReading = async (key: SeededKey, name: string) => {
    const watcher = await open(key, name);
    const slow = { ...(await open(key, name)), received: 0 };
    const stream = streamOf(slow.connection);
    stream.removeAllListeners('readable');
    stream.pause();
    const consumed = slow.channel.consume(slow.queue, () => {
      slow.received += 1;
    });
    consumed.catch(() => {});
    const isConsuming = async () => (await watcher.channel.checkQueue(slow.queue)).consumerCount === 1;
    await eventually(async () => (await isConsuming()) || undefined);
    return { slow, watcher };
  };

  it('adds at most 32 MB to the memory of bridge and edge over 100 000 messages, while other consumers receive [C-6.4]', async () => {
    const key = await stack.addKey();
    const vhost = await VhostCaller.of(stack, key.id);
    const otherKey = await stack.addKey();
    const other = await consume(otherKey, 'event.alarm');
    const otherVhost = await VhostCaller.of(stack, otherKey.id);
    const quick = await consume(key, 'event.alarm');
    await fill(vhost, WARM_UP);
    await eventually(() => quick.received === WARM_UP || undefined, 30_000);
    await quick.connection.close();
    const { slow, watcher } = await consumeWithoutReading(key, 'event.alarm');
    const before = memoryOf(stack);
    for (let count = 1; count <= 10; count++) {
      await fill(vhost, MESSAGES / 10);
      await otherVhost.events('alarm', 1, PAYLOAD_CHARS);
      await eventually(() => other.received === count || undefined, 2_000);
    }
    const after = memoryOf(stack);
    expect(after.bridge - before.bridge).toBeLessThanOrEqual(GROWTH_MIB);
    expect(after.edge - before.edge).toBeLessThanOrEqual(GROWTH_MIB);
    expect(slow.received).toBe(0);

    // Another consumer of the same queue gets the messages that the slow one has no room for.
    const helper = await consume(key, 'event.alarm');
    await eventually(() => helper.received >= 10 * BATCH || undefined);
    leave(slow, watcher, helper, other);
  }, 90_000);

  it.each([
    ['event.alarm', (vhost: VhostCaller) => vhost.events('alarm', LARGE_BATCH, LARGE_PAYLOAD_CHARS)],
    ['event.telemetry', (vhost: VhostCaller) => vhost.telemetry(LARGE_BATCH, LARGE_PAYLOAD_CHARS)],
  ])('does not prevent that %s drops its oldest messages at 64 MiB [C-6.4]', async (name, send) => {
    const key = await stack.addKey();
    const vhost = await VhostCaller.of(stack, key.id);
    const { slow, watcher } = await consumeWithoutReading(key, name);
    const batchChars = LARGE_BATCH * LARGE_PAYLOAD_CHARS;
    for (let chars = 0; chars < 1.1 * QUEUE_BYTES; chars += batchChars) await send(vhost);
    const { messageCount } = await watcher.channel.checkQueue(slow.queue);
    expect(messageCount).toBeGreaterThan((0.9 * QUEUE_BYTES) / LARGE_PAYLOAD_CHARS);
    expect(messageCount).toBeLessThanOrEqual(QUEUE_BYTES / LARGE_PAYLOAD_CHARS);
    expect(slow.received).toBe(0);
    leave(slow, watcher);
  });
});

async function fill(vhost: VhostCaller, messages: number): Promise<void> {
  for (let sent = 0; sent < messages; sent += BATCH) await vhost.events('alarm', BATCH, PAYLOAD_CHARS);
}

/** Drops the clients' sockets, because a client that does not read never sees a close. */
function leave(...clients: { connection: ChannelModel }[]): void {
  for (const { connection } of clients) streamOf(connection).destroy();
}

function streamOf(connection: ChannelModel): Duplex {
  return (connection.connection as unknown as { stream: Duplex }).stream;
}

function memoryOf(stack: TestStack): { bridge: number; edge: number } {
  return { bridge: residentMib(stack.bridge.process?.pid), edge: residentMib(stack.edge.pid()) };
}
