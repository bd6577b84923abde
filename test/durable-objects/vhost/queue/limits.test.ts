/**
 * The limits of a stored queue in size and age: beyond them its oldest messages are dropped and counted
 * [C-6.4].
 */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { hand, numberOf } from '#workerd/outbox-events.ts';
import { publishOf, vhostRows } from '#workerd/partner.ts';
import { openPartner } from '#workerd/partner-scenes.ts';
import { turnsOf } from '#workerd/turns.ts';
import { vhostOf } from '#workerd/world.ts';
import { Sql } from '../../../../durable-objects/object/sql.ts';
import type { Turn } from '../../../../durable-objects/object/turn.ts';
import type { Taken } from '../../../../durable-objects/vhost/queue/queue.ts';
import { type Message, QueueRows } from '../../../../durable-objects/vhost/queue/rows.ts';
import { StoredQueue } from '../../../../durable-objects/vhost/queue/stored-queue.ts';
import type { QueueName } from '../../../../protocol/routing-keys.ts';

const DAY_MS = 24 * 3_600_000;
const MIB = 1024 * 1024;

afterEach(() => {
  vi.useRealTimers();
});

async function droppedCount(key: Parameters<typeof vhostRows>[0], queue: QueueName): Promise<number> {
  const rows = await vhostRows<{ name: string; dropped_count: number }>(key, 'SELECT * FROM queue');
  return rows.find(({ name }) => name === queue)?.dropped_count ?? 0;
}

type Commit = <Value>(work: (turn: Turn) => Value) => Value;

/**
 * Works on a queue without its vhost, in the storage of a test object; each step is a turn, as in a vhost.
 */
async function onQueue<Value>(
  name: QueueName,
  work: (queue: StoredQueue, commit: Commit, rows: QueueRows) => Value,
): Promise<Value> {
  const stub = vhostOf(crypto.randomUUID());
  return await runInDurableObject(stub, (_vhost, state) => {
    const rows = new QueueRows(new Sql(state.storage));
    const isConnected = () => true;
    const queue = new StoredQueue(name, rows, () => {}, isConnected);
    const runAt = turnsOf(state, (turn) => {
      if (queue.mustStore) queue.storeNew(turn);
      queue.save(turn);
    });
    return work(queue, (step) => runAt(1_000, step), rows);
  });
}

function message(chars: number, mark: string): Message {
  const body = mark.padEnd(chars, '.');
  return { routingKey: 'acme.event.alarm', properties: {}, body, encoding: 'utf8', createdAtMs: 1_000 };
}

function markOf(taken: Taken | undefined): string | undefined {
  return taken?.message.body.split('.')[0];
}

const owner = { connectionId: 'connection-1', channel: 1, tag: null };

describe('the size of a queue', () => {
  it.each([
    ['dead-letter', 16],
    ['event.alarm', 64],
  ] as const)(
    '%s is limited to %d MiB: the oldest message is dropped and counted [C-6.4]',
    async (name, mebibytes) => {
      const outcome = await onQueue(name, (queue, commit, rows) => {
        // Each message counts as slightly more than its body, so one fewer fits.
        for (let index = 1; index <= mebibytes + 2; index++) {
          commit((turn) => queue.push(turn, message(MIB, `${index}`)));
        }
        const first = commit((turn) => queue.take(turn, owner, null));
        return { first: markOf(first), ready: queue.readyCount, counts: rows.counts(name) };
      });
      expect(outcome.first).toBe('4');
      expect(outcome.ready).toBe(mebibytes - 2);
      expect(outcome.counts).toMatchObject({ message_count: mebibytes - 2, dropped_count: 3 });
      expect(outcome.counts?.byte_count).toBeLessThanOrEqual(mebibytes * MIB);
    },
  );

  it('limits the waiting messages: a leased one is skipped, and the oldest waiting one is dropped [C-6.4]', async () => {
    const outcome = await onQueue('dead-letter', (queue, commit, rows) => {
      const push = (index: number) => commit((turn) => queue.push(turn, message(MIB, `${index}`)));
      push(1);
      push(2);
      commit((turn) => queue.take(turn, owner, 7));
      for (let index = 3; index <= 16; index++) push(index);
      commit((turn) => queue.requeue(turn, 7));
      const next = [1, 2].map(() => commit((turn) => queue.take(turn, owner, null)));
      return { marks: next.map(markOf), counts: rows.counts('dead-letter') };
    });
    expect(outcome.marks).toEqual(['1', '3']);
    expect(outcome.counts?.dropped_count).toBe(1);
  });

  it('is limited to 100 000 messages: the oldest is dropped and counted [C-6.4]', async () => {
    const { key, partner, siteId } = await openPartner();
    await hand(key, siteId, 1, 3, { kind: 'alarm' });
    // As if 99 995 more messages came before.
    await vhostRows(key, "UPDATE queue SET message_count = 99998 WHERE name = 'event.alarm'");
    await evictDurableObject(vhostOf(key.id));
    await hand(key, siteId, 4, 2, { kind: 'alarm' });
    expect(await droppedCount(key, 'event.alarm')).toBe(0);
    await hand(key, siteId, 6, 2, { kind: 'alarm' });
    expect(await droppedCount(key, 'event.alarm')).toBe(2);
    const next = await partner.get('event.alarm');
    expect(next.delivery && numberOf(next.delivery)).toBe(3);
    expect(next.messageCount).toBe(99_999);
  });

  it('is right after sleep and settling: nothing is left over', async () => {
    const { key, partner, siteId } = await openPartner();
    await partner.consume('event.status', { prefetch: 3 });
    await hand(key, siteId, 1, 4);
    const held = await partner.delivered(3);
    await evictDurableObject(vhostOf(key.id));
    partner.settle('ack', held);
    partner.settle('discard', (await partner.delivered(4)).slice(3));
    await partner.quiet();
    const dead = await partner.get('dead-letter', { noAck: true });
    expect(dead.delivery && numberOf(dead.delivery)).toBe(4);
    const rows = await vhostRows<{ message_count: number; byte_count: number }>(key, 'SELECT * FROM queue');
    for (const row of rows) expect(row).toMatchObject({ message_count: 0, byte_count: 0 });
  });

  it('is right for a body that contains NUL or characters outside the basic plane', async () => {
    const { key, partner } = await openPartner();
    await partner.consume('dead-letter');
    await partner.askAll(
      publishOf(partner.routingKey('mode'), '\u0000'.repeat(1_000)),
      publishOf(partner.routingKey('mode'), '🔋'.repeat(1_000)),
    );
    const dead = await partner.delivered(2);
    await evictDurableObject(vhostOf(key.id));
    partner.settle('ack', dead);
    await partner.quiet();
    const rows = await vhostRows<{ byte_count: number }>(
      key,
      "SELECT * FROM queue WHERE name = 'dead-letter'",
    );
    expect(rows).toMatchObject([{ message_count: 0, byte_count: 0 }]);
  });
});

describe('the age of a message', () => {
  it.each(['event.status', 'event.alarm', 'event.execution', 'dead-letter'] as const)(
    '%s is limited to seven days: then it is dropped and counted [C-6.4]',
    async (queue) => {
      vi.setSystemTime(Date.now());
      const { key, partner, siteId } = await openPartner();
      const kinds = {
        'event.status': 'ack',
        'event.alarm': 'alarm',
        'event.execution': 'execution',
      } as const;
      if (queue === 'dead-letter') {
        await partner.ask(publishOf(partner.routingKey('mode'), 'first'));
        await partner.ask(publishOf(partner.routingKey('mode'), 'second'));
      } else {
        await hand(key, siteId, 1, 2, { kind: kinds[queue] });
      }
      vi.setSystemTime(Date.now() + 7 * DAY_MS - 1);
      expect((await partner.get(queue, { noAck: true })).delivery).not.toBeNull();
      vi.setSystemTime(Date.now() + 1);
      expect((await partner.get(queue)).delivery).toBeNull();
      expect(await droppedCount(key, queue)).toBe(1);
    },
  );

  it('does not drop leased messages [C-6.4]', async () => {
    const { key, partner, siteId } = await openPartner();
    await hand(key, siteId, 1, 2);
    const held = await partner.get('event.status');
    vi.setSystemTime(Date.now() + 8 * DAY_MS);
    expect((await partner.get('event.status')).delivery).toBeNull();
    if (held.delivery) partner.settle('discard', [held.delivery]);
    await partner.quiet();
    expect(await droppedCount(key, 'event.status')).toBe(1);
  });

  it('restarts in the dead-letter queue: seven days from its arrival there [C-6.4]', async () => {
    vi.setSystemTime(Date.now());
    const { key, partner, siteId } = await openPartner();
    await hand(key, siteId, 1, 1);
    vi.setSystemTime(Date.now() + 6 * DAY_MS);
    const late = await partner.get('event.status');
    if (late.delivery) partner.settle('discard', [late.delivery]);
    await partner.quiet();
    vi.setSystemTime(Date.now() + 2 * DAY_MS);
    expect((await partner.get('dead-letter')).delivery?.body).toBe(late.delivery?.body);
  });
});
