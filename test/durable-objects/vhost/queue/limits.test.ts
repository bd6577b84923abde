/**
 * The limits of an event queue in size and age: beyond them its oldest messages are dropped and counted
 * [C-6.4].
 */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { hand, numberOf } from '#workerd/outbox-events.ts';
import { publishOf, untilStored, vhostRows } from '#workerd/partner.ts';
import { onQueue } from '#workerd/queues.ts';
import { EVENTS_OF, setScene } from '#workerd/scene.ts';
import { DAY } from '#workerd/site-clock.ts';
import { vhostOf } from '#workerd/world.ts';
import { LIMIT } from '../../../../protocol/limits.ts';
import type { QueueName } from '../../../../protocol/routing-keys.ts';

const MIB = 1024 * 1024;
/** The body of a message that counts as less than 1 MiB. */
const ALMOST_A_MIB = MIB - 1_000;

async function droppedCount(key: Parameters<typeof vhostRows>[0], queue: QueueName): Promise<number> {
  const rows = await vhostRows<{ name: string; dropped_count: number }>(key, 'SELECT * FROM queue');
  return rows.find(({ name }) => name === queue)?.dropped_count ?? 0;
}

describe('the size of an event queue', () => {
  it.each([
    ['dead-letter', 16],
    ['event.alarm', 64],
  ] as const)(
    '(%s) is limited to %d MiB: the oldest messages are dropped and counted [C-6.4]',
    async (name, mebibytes) => {
      const outcome = await onQueue(name, (bench) => {
        for (let number = 1; number <= mebibytes + 2; number++) bench.push(number, ALMOST_A_MIB);
        const first = bench.next();
        return {
          ...{ first, ready: bench.queue.readyCount, dropped: bench.dropped() },
          bytes: bench.rows.chunks().reduce((sum, chunk) => sum + chunk.byte_count, 0),
        };
      });
      expect(outcome).toMatchObject({ first: 3, ready: mebibytes - 1, dropped: 2 });
      expect(outcome.bytes).toBeLessThanOrEqual(mebibytes * MIB);
    },
  );

  it('is kept below its limit by dropping the oldest waiting message: a leased one is skipped [C-6.4]', async () => {
    const outcome = await onQueue('dead-letter', (bench) => {
      bench.push(1, ALMOST_A_MIB);
      bench.push(2, ALMOST_A_MIB);
      bench.next(1_000, 7);
      for (let number = 3; number <= 17; number++) bench.push(number, ALMOST_A_MIB);
      bench.requeue(7);
      return { next: [bench.next(), bench.next()], dropped: bench.dropped() };
    });
    expect(outcome).toEqual({ next: [1, 3], dropped: 1 });
  });

  it('is limited to 100 000 messages: the oldest ones are dropped and counted [C-6.4]', async () => {
    const outcome = await onQueue('event.alarm', (bench) => {
      for (let number = 1; number <= 100_002; number++) bench.push(number, 20);
      return { dropped: bench.dropped(), first: bench.next(), ready: bench.queue.readyCount };
    });
    expect(outcome).toEqual({ dropped: 2, first: 3, ready: 99_999 });
  });

  it('is zero again after a sleep, acknowledgements and a discard: no stored row is left', async () => {
    const { key, partner, held } = await setScene({ held: { count: 4, prefetch: 3 } });
    await evictDurableObject(vhostOf(key.id));
    partner.settle('ack', held);
    partner.settle('discard', (await partner.delivered(4)).slice(3));
    await partner.quiet();
    const dead = await partner.get('dead-letter', { noAck: true });
    expect(dead.delivery && numberOf(dead.delivery)).toBe(4);
    await untilStored(key, 0);
    expect(await vhostRows(key, 'SELECT * FROM chunk')).toEqual([]);
  });

  it('is zero again after bodies with NUL or emoji were acknowledged: no stored row is left', async () => {
    const { key, partner } = await setScene({ consumes: 'dead-letter' });
    await partner.askAll(
      publishOf(partner.routingKey('mode'), '\u0000'.repeat(1_000)),
      publishOf(partner.routingKey('mode'), '🔋'.repeat(1_000)),
    );
    const dead = await partner.delivered(2);
    await evictDurableObject(vhostOf(key.id));
    partner.settle('ack', dead);
    await partner.quiet();
    await untilStored(key, 0);
    expect(await vhostRows(key, 'SELECT * FROM chunk')).toEqual([]);
  });

  it('allows the longest body of control characters: the dead letter is stored and delivered unchanged', async () => {
    const { partner, restart } = await setScene({ partner: 'connected' });
    const body = '\u0001'.repeat(LIMIT.amqpBodyBytes);
    await partner.ask(publishOf(partner.routingKey('mode'), body));
    partner.link.socket.close();
    const { delivery } = await (await restart()).get('dead-letter');
    expect(delivery?.encoding).toBe('base64');
    expect(atob(delivery?.body ?? '')).toBe(body);
  });
});

describe('the age of a message', () => {
  it.each(['event.status', 'event.alarm', 'event.execution', 'dead-letter'] as const)(
    '(%s) is limited to seven days: then it is dropped and counted [C-6.4]',
    async (queue) => {
      vi.setSystemTime(Date.now());
      const { key, partner, siteId } = await setScene({ partner: 'connected' });
      if (queue === 'dead-letter') {
        await partner.ask(publishOf(partner.routingKey('mode'), 'first'));
        await partner.ask(publishOf(partner.routingKey('mode'), 'second'));
      } else {
        await hand(key, siteId, 1, 2, { kind: EVENTS_OF[queue] });
      }
      vi.setSystemTime(Date.now() + 7 * DAY - 1);
      expect((await partner.get(queue, { noAck: true })).delivery).not.toBeNull();
      vi.setSystemTime(Date.now() + 1);
      expect((await partner.get(queue)).delivery).toBeNull();
      expect(await droppedCount(key, queue)).toBe(1);
    },
  );

  it('has no effect while the message is leased: only the waiting message is dropped and counted [C-6.4]', async () => {
    const { key, partner } = await setScene({ partner: 'connected', events: 2 });
    const held = await partner.get('event.status');
    vi.setSystemTime(Date.now() + 8 * DAY);
    expect((await partner.get('event.status')).delivery).toBeNull();
    partner.settle('discard', [held.delivery]);
    await partner.quiet();
    expect(await droppedCount(key, 'event.status')).toBe(1);
  });

  it('starts again in the dead-letter queue: seven days from its arrival there [C-6.4]', async () => {
    vi.setSystemTime(Date.now());
    const { partner } = await setScene({ partner: 'connected', events: 1 });
    vi.setSystemTime(Date.now() + 6 * DAY);
    const late = await partner.get('event.status');
    partner.settle('discard', [late.delivery]);
    await partner.quiet();
    vi.setSystemTime(Date.now() + 2 * DAY);
    expect((await partner.get('dead-letter')).delivery?.body).toBe(late.delivery?.body);
  });
});
