/** The limits of partner queues in size and age, and their cost [C-6.6], [C-6.4]. */
import { evictDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { hand, numberOf, outboxEvents } from '#workerd/outbox-events.ts';
import { type Partner, vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { DAY, HOUR, passVhostTime } from '#workerd/site-clock.ts';
import { type Key, vhostOf } from '#workerd/world.ts';
import { VHOST_BOUNDS } from '../../../../durable-objects/vhost/bounds.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});

/** A partner with queues that receive all of its events. */
async function openPartnerQueues(names: readonly string[], ttlMs?: number) {
  const scene = await setScene({ partner: 'connected' });
  const typed = ttlMs === undefined ? [] : [{ name: 'x-message-ttl', type: 'signedint', value: ttlMs }];
  for (const queue of names) {
    expect(await scene.partner.declare(queue, { arguments: typed })).toMatchObject({ kind: 'ok' });
    await scene.partner.ask({ kind: 'bind', queue, pattern: `${scene.organization.slug}.event.#` });
  }
  return scene;
}

async function takeOne(partner: Partner, queue: string): Promise<number | undefined> {
  const answer = await partner.ask({ kind: 'get', queue, channel: 1, noAck: true });
  return answer.kind === 'got' && answer.delivery ? numberOf(answer.delivery) : undefined;
}

async function stored(key: Key, queue: string) {
  const [row] = await vhostRows<{ chunks: number; dropped: number }>(
    key,
    `SELECT (SELECT count(*) FROM chunk WHERE queue = 'partner/${queue}') AS chunks,
      (SELECT coalesce(sum(dropped_count), 0) FROM queue WHERE name = 'partner/${queue}') AS dropped`,
  );
  return row;
}

describe('x-message-ttl', () => {
  it('begins when a message arrives; an older message is neither delivered nor in the message count', async () => {
    const { partner, key, siteId } = await openPartnerQueues(['mine'], 10_000);
    await hand(key, siteId, 1, 2);
    vi.setSystemTime(Date.now() + 8_000);
    await hand(key, siteId, 3, 1);
    vi.setSystemTime(Date.now() + 3_000);
    expect(await partner.countOf('mine')).toBe(1);
    expect(await takeOne(partner, 'mine')).toBe(3);
    expect(await takeOne(partner, 'mine')).toBeUndefined();
  });

  it('delivers a message, if it is zero, only to a consumer that exists when it arrives', async () => {
    const { partner, key, siteId } = await openPartnerQueues(['mine'], 0);
    await hand(key, siteId, 1, 1);
    vi.setSystemTime(Date.now() + 1);
    await partner.consumeFrom('mine');
    await hand(key, siteId, 2, 1);
    expect((await partner.delivered(1)).map(numberOf)).toEqual([2]);
  });

  it('drops messages by fewer than ten alarms an hour, in an object that sleeps without clients', async () => {
    const { key, siteId, leave } = await openPartnerQueues(['mine'], 1_000);
    await hand(key, siteId, 1, 3);
    await leave();
    const rings = await passVhostTime(key, HOUR);
    expect(await stored(key, 'mine')).toEqual({ chunks: 0, dropped: 3 });
    expect(rings).toBeLessThan(10);
  });
});

it('messages of a partner queue without x-message-ttl are dropped after seven days', async () => {
  const { key, siteId, leave } = await openPartnerQueues(['mine']);
  await hand(key, siteId, 1, 3);
  await leave();
  await passVhostTime(key, 7 * DAY - HOUR);
  expect(await stored(key, 'mine')).toMatchObject({ chunks: 1 });
  await passVhostTime(key, 2 * HOUR);
  expect(await stored(key, 'mine')).toEqual({ chunks: 0, dropped: 3 });
});

describe('all partner queues together', () => {
  const CHARS = 100_000;

  it('hold 64 MiB: beyond it the largest queue drops its oldest messages; the rest survives a sleep', async () => {
    const { partner, key, siteId } = await openPartnerQueues(['one', 'two']);
    const total = Math.ceil((VHOST_BOUNDS.partnerQueueBytes / CHARS / 2) * 1.2);
    for (let from = 1; from <= total; from += 10)
      await hand(key, siteId, from, Math.min(10, total - from + 1), { kind: 'telemetry', chars: CHARS });
    const counts = async () => [(await partner.countOf('one')) ?? 0, (await partner.countOf('two')) ?? 0];
    const [one = 0, two = 0] = await counts();
    const held = one + two;
    expect(held * CHARS).toBeLessThanOrEqual(VHOST_BOUNDS.partnerQueueBytes);
    expect((held + 2) * (CHARS + 1_000)).toBeGreaterThan(VHOST_BOUNDS.partnerQueueBytes);
    expect(Math.abs(one - two)).toBeLessThanOrEqual(1);
    await evictDurableObject(vhostOf(key.id));
    expect(await counts()).toEqual([one, two]);
    expect(await takeOne(partner, 'one')).toBe(total - one + 1);
  });

  it('hold about 64 MiB at most, also when every message is leased and none is acknowledged', async () => {
    const { partner, key, siteId } = await openPartnerQueues(['one']);
    const total = Math.ceil((VHOST_BOUNDS.partnerQueueBytes / CHARS) * 1.2);
    for (let from = 1; from <= total; from += 10) {
      await hand(key, siteId, from, 10, { kind: 'telemetry', chars: CHARS });
      for (let taken = 0; taken < 10; taken++) {
        await partner.ask({ kind: 'get', queue: 'one', channel: 1, noAck: false });
      }
    }
    const rows = await vhostRows<{ bytes: number }>(
      key,
      "SELECT sum(length(data)) AS bytes FROM chunk WHERE queue = 'partner/one'",
    );
    expect(rows[0]?.bytes ?? 0).toBeLessThan(VHOST_BOUNDS.partnerQueueBytes + 3 * CHARS);
    expect(await partner.countOf('one')).toBe(0);
  });
});

it('telemetry that is acknowledged as it arrives writes at most 0.2 rows a message, in a partner queue and in event.telemetry', async () => {
  const { partner, key, siteId } = await openPartnerQueues(['mine']);
  await partner.consumeFrom('mine');
  await partner.consume('event.telemetry');
  const rowsBefore = await vhostRows<{ changes: number }>(key, 'SELECT total_changes() AS changes');
  for (let from = 1; from <= 100; from++) {
    await vhostOf(key.id).receivePassing(siteId, outboxEvents(from, 1, { kind: 'telemetry' }));
    const deliveries = await partner.delivered(2 * from);
    partner.settle('ack', deliveries.slice(-2));
  }
  await partner.quiet();
  const rowsAfter = await vhostRows<{ changes: number }>(key, 'SELECT total_changes() AS changes');
  expect((rowsAfter[0]?.changes ?? 0) - (rowsBefore[0]?.changes ?? 0)).toBeLessThanOrEqual(20);
});
