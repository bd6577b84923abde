/** Telemetry events in memory and in chunks: their cost in rows, and what survives a sleep or a crash. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { hand, markedNumbers, numberOf, passingEvents, range } from '#workerd/outbox-events.ts';
import { vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { type Key, vhostOf } from '#workerd/world.ts';
import { Turns } from '../../../../durable-objects/object/turn.ts';

/** Approximately the events that a site with a few assets reports at once. */
const PAYLOAD_CHARS = 700;

beforeEach(() => {
  // The flush is a timer, so the clock stops until a test moves it.
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] });
});

/** Hands over events like a Site that does not keep them. */
async function pass(
  key: Key,
  siteId: string,
  from: number,
  count: number,
  chars = PAYLOAD_CHARS,
): Promise<void> {
  const events = passingEvents(from, count, chars);
  expect(await vhostOf(key.id).receivePassing(siteId, events)).toBe('taken');
}

/** Lets time pass inside the vhost, so that its own timers run. */
async function advance(key: Key, ms: number): Promise<void> {
  await runInDurableObject(vhostOf(key.id), () => vi.advanceTimersByTimeAsync(ms));
}

async function chunks(key: Key) {
  return await vhostRows<{ message_count: number; length: number }>(
    key,
    'SELECT event_count AS message_count, length(data) AS length FROM chunk ORDER BY position',
  );
}

/** The rows that a vhost writes from here on, according to its own counter. */
async function watchRows(key: Key): Promise<() => number> {
  let turns: Turns | undefined;
  const { run } = Turns.prototype;
  vi.spyOn(Turns.prototype, 'run').mockImplementation(function (this: Turns, ...work) {
    turns ??= this;
    return run.apply(this, work) as never;
  });
  await vhostOf(key.id).receivePassing(crypto.randomUUID(), []);
  const before = turns?.rowsWritten ?? 0;
  return () => (turns?.rowsWritten ?? 0) - before;
}

describe('telemetry events that are delivered at once', () => {
  it('are never written to their queue if they are acknowledged as they arrive', async () => {
    const { key, partner, siteId } = await setScene({ consumes: 'event.telemetry' });
    const rows = await watchRows(key);
    for (let round = 0; round < 20; round++) {
      await pass(key, siteId, 1 + round * 5, 5);
      partner.settle('ack', (await partner.delivered(5 * round + 5)).slice(-5));
      partner.link.send({ kind: 'credit', drainedBytes: 1_000_000 * round });
      await partner.quiet();
      await advance(key, 2_000);
    }
    await partner.quiet();
    await advance(key, 60_000);
    expect(await chunks(key)).toEqual([]);
    expect(rows()).toBe(0);
  });

  it('are never written to their queue with noAck', async () => {
    const { key, partner, siteId } = await setScene({ consumes: { queue: 'event.telemetry', noAck: true } });
    const rows = await watchRows(key);
    await pass(key, siteId, 1, 100);
    await partner.delivered(100);
    await advance(key, 60_000);
    expect(rows()).toBe(0);
  });

  it('write at most 0.2 rows each in queue and in journal if they are acknowledged five events late, over 1000 events [C-12.1]', async () => {
    const { key, partner, siteId } = await setScene({ consumes: { queue: 'event.telemetry', prefetch: 50 } });
    const rows = await watchRows(key);
    let acknowledged = 0;
    for (let round = 0; round < 100; round++) {
      await pass(key, siteId, 1 + round * 10, 10);
      // The client is always five events behind.
      const all = await partner.delivered(round * 10 + 10);
      partner.settle('ack', all.slice(acknowledged, all.length - 5));
      acknowledged = all.length - 5;
      partner.link.send({ kind: 'credit', drainedBytes: 1_000_000 * round });
      await advance(key, 10_000);
    }
    expect(rows() / 1_000).toBeLessThanOrEqual(0.4);
  });
});

describe('telemetry events that wait for a client', () => {
  it('are written in the turn in which they arrive, and survive a crash of the object [C-6.4]', async () => {
    const { key, siteId, restart } = await setScene({ partner: 'connected' });
    await pass(key, siteId, 1, 20);
    expect(await chunks(key)).toMatchObject([{ message_count: 20 }]);
    const again = await restart();
    await again.consume('event.telemetry');
    await again.delivered(20);
    expect(markedNumbers(again)).toEqual(range(1, 20).map(String));
  });

  it('write at most 0.2 rows each, over 1000 events', async () => {
    const { key, siteId } = await setScene({ partner: 'connected' });
    const rows = await watchRows(key);
    for (let round = 0; round < 50; round++) {
      await pass(key, siteId, 1 + round * 20, 20);
      await advance(key, 20_000);
    }
    await advance(key, 60_000);
    expect(rows() / 1_000).toBeLessThanOrEqual(0.2);
    const stored = await chunks(key);
    expect(stored.reduce((sum, chunk) => sum + chunk.message_count, 0)).toBe(1_000);
  });

  it('are delivered in order, each once, although they span several chunks and a sleep [C-6.4]', async () => {
    const { key, siteId, partner } = await setScene({ partner: 'connected' });
    await pass(key, siteId, 1, 500);
    await advance(key, 60_000);
    await evictDurableObject(vhostOf(key.id));
    await pass(key, siteId, 501, 500);
    await advance(key, 30_000);
    expect((await chunks(key)).length).toBeGreaterThan(1);
    expect(await partner.readyCount('event.telemetry')).toBe(1_000);
    await partner.consume('event.telemetry');
    partner.link.send({ kind: 'credit', drainedBytes: 100_000_000 });
    await partner.delivered(1_000);
    expect(partner.deliveries().map(numberOf)).toEqual(range(1, 1_000));
  });

  it.each([
    ['large', 100_000, 8, 2],
    ['of the usual size', PAYLOAD_CHARS, 1_000, 1],
    ['small', 10, 2_000, 1],
  ])(
    'are, if they are %s, in rows of at most 256 KB plus one event (rule 9)',
    async (_, chars, count, rows) => {
      const { key, siteId } = await setScene({ partner: 'connected' });
      await pass(key, siteId, 1, count, chars);
      await advance(key, 60_000);
      const stored = await chunks(key);
      expect(stored.length).toBeGreaterThanOrEqual(rows);
      for (const { length } of stored) expect(length).toBeLessThanOrEqual(256 * 1024 + chars + 1_000);
    },
  );
});

describe('telemetry events, before and after a sleep or a crash', () => {
  it('are stored with their leases if they are leased: the client can acknowledge them after a sleep (rule 8)', async () => {
    const { key, partner, siteId } = await setScene({ consumes: { queue: 'event.telemetry', prefetch: 3 } });
    await pass(key, siteId, 1, 5);
    const held = await partner.delivered(3);
    await advance(key, 50_000);
    await partner.quiet();
    await advance(key, 10_000);
    await evictDurableObject(vhostOf(key.id));
    await partner.quiet();
    expect(partner.deliveries().map(numberOf)).toEqual([1, 2, 3]);
    partner.settle('ack', held);
    await partner.delivered(5);
    partner.settle('ack', partner.deliveries().slice(3));
    await partner.quiet();
    expect(await chunks(key)).toEqual([]);
  });

  it('are delivered again, as redelivered, if they were leased when a crash of the object closed the connection (rule 8)', async () => {
    const { key, partner, siteId, restart } = await setScene({ partner: 'connected' });
    await partner.consume('event.telemetry', { prefetch: 3 });
    await pass(key, siteId, 1, 5);
    await partner.delivered(3);
    await advance(key, 50_000);
    await partner.quiet();
    await advance(key, 10_000);
    const again = await restart();
    await again.consume('event.telemetry');
    await again.delivered(5);
    expect(markedNumbers(again)).toEqual(['1*', '2*', '3*', '4', '5']);
  });

  it('survive a crash if they arrived a minute before it, and later events are delivered after them [C-6.4]', async () => {
    const { key, siteId, restart } = await setScene({ partner: 'connected' });
    await pass(key, siteId, 1, 5);
    await advance(key, 60_000);
    await pass(key, siteId, 6, 5);
    const again = await restart();
    const count = await again.readyCount('event.telemetry');
    expect(count).toBeGreaterThanOrEqual(5);
    await hand(key, siteId, 11, 1, { kind: 'telemetry' });
    await again.consume('event.telemetry');
    const all = (await again.delivered(count + 1)).map(numberOf);
    expect(all.slice(0, 5)).toEqual(range(1, 5));
    expect(all.at(-1)).toBe(11);
  });
});
