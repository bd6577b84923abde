/**
 * Measures 64 MiB of waiting telemetry, read by a consumer without prefetch that acknowledges nothing. It
 * costs the edge no significant memory, neither during delivery nor when the object wakes with all of it
 * leased (rule 9).
 */
import { describe, expect, it } from 'vitest';
import { residentMib } from '#support/process-memory.ts';
import { openConnection } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { VhostCaller } from '#support/vhost-caller.ts';
import type { SeededKey } from '../../tools/seed.ts';

/** [C-6.4] */
const QUEUE_BYTES = 64 * 1024 * 1024;
const BATCH_CHARS = 512 * 1024;
const GROWTH_MIB = 100;
const READ_WITHIN_MS = 60_000;

describe('a backlog of 64 MiB', () => {
  const stack = suiteStack({ bridgeProcess: true });

  /** The memory of the edge's process. The runtime may keep garbage, so the bound is generous. */
  const edgeMib = () => {
    const pid = stack.edge.pid();
    return pid === undefined ? 0 : residentMib(pid);
  };

  /** The peak while some work runs. */
  const watch = () => {
    const seen = { mostMib: edgeMib() };
    const timer = setInterval(() => {
      seen.mostMib = Math.max(seen.mostMib, edgeMib());
    }, 50);
    const stop = () => {
      clearInterval(timer);
      return Math.max(seen.mostMib, edgeMib());
    };
    return { stop };
  };

  const consume = async (key: SeededKey) => {
    const connection = await openConnection(stack.partnerOptions(key));
    const channel = await connection.createChannel();
    channel.on('error', () => {});
    const queue = `vcp.${stack.credentials.organization.slug}.event.telemetry`;
    const consumer = { connection, channel, queue, received: 0, redelivered: 0 };
    const start = () =>
      channel.consume(queue, (message) => {
        if (!message) return;
        consumer.received += 1;
        if (message.fields.redelivered) consumer.redelivered += 1;
      });
    return { ...consumer, start, counts: consumer };
  };

  it.each([
    ['of 16 KB', 16 * 1024],
    ['of 1 KB', 1_024],
  ])(
    'in events %s adds at most 100 MB to the memory of the edge: read, leased over a sleep, and redelivered after a crash',
    async (_, chars) => {
      const key = await stack.addKey();
      await (await openConnection(stack.partnerOptions(key))).close();
      const vhost = await VhostCaller.of(stack, key.id);
      const events = Math.floor(BATCH_CHARS / chars);
      let sent = 0;
      for (let filled = 0; filled < 0.9 * QUEUE_BYTES; filled += events * (chars + 700)) {
        await vhost.telemetry(events, chars);
        sent += events;
      }
      // Starts a new process, so that the memory for filling the queue is not measured, and only clients keep
      // the object awake.
      await stack.killEdge();
      await eventually(async () => (await stack.rest('/vcp/sites')).status === 200 || undefined);
      const before = edgeMib();

      const reading = watch();
      const first = await consume(key);
      const { messageCount } = await first.channel.checkQueue(first.queue);
      expect(messageCount).toBeGreaterThan(0.95 * sent);
      sent = messageCount;
      await first.start();
      await eventually(() => first.counts.received === sent || undefined, READ_WITHIN_MS);
      expect(reading.stop() - before).toBeLessThanOrEqual(GROWTH_MIB);

      const asleep = watch();
      await stack.putToSleep('Vhost', key.id);
      expect((await first.channel.checkQueue(first.queue)).messageCount).toBe(0);
      expect(first.counts.received).toBe(sent);
      expect(asleep.stop() - before).toBeLessThanOrEqual(GROWTH_MIB);

      await stack.killEdge();
      const fresh = edgeMib();
      const waking = watch();
      const second = await consume(key);
      await second.start();
      await eventually(() => second.counts.received === sent || undefined, READ_WITHIN_MS);
      expect(second.counts.redelivered).toBe(sent);
      expect(waking.stop() - fresh).toBeLessThanOrEqual(GROWTH_MIB);

      const acknowledging = watch();
      second.channel.ackAll();
      await eventually(async () => {
        const left = await second.channel.checkQueue(second.queue);
        return left.messageCount === 0 || undefined;
      });
      expect(acknowledging.stop() - fresh).toBeLessThanOrEqual(GROWTH_MIB);
      await second.connection.close();
      const third = await consume(key);
      expect((await third.channel.checkQueue(third.queue)).messageCount).toBe(0);
      await third.connection.close();
    },
    240_000,
  );
});
