/**
 * Telemetry chunks in storage: lines are appended and never changed; the leases are in a separate, small column.
 */
import { evictDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { hand, markedNumbers, numberOf, range } from '#workerd/outbox-events.ts';
import { vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { type Key, vhostOf } from '#workerd/world.ts';
import type { ChunkState } from '../../../../durable-objects/vhost/queue/rows.ts';

const CHARS = 700;
const EVENTS = 600;
/** Maximum size of a chunk's leases; its lines take up to 28 KB. */
const STATE_CHARS = 4 * 1024;
/** Maximum bytes of fully written rows for each event, on average. */
const WRITTEN_CHARS = 16 * 1024;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});

/** Waits until storage has the leases: at most a second later. */
async function untilHeld(key: Key, count: number): Promise<void> {
  await vi.waitFor(async () => expect(await heldOf(key)).toBe(count), 10_000);
}

/** The number of leased events according to storage. */
async function heldOf(key: Key): Promise<number> {
  const states = await statesOf(key);
  const runs = states.flatMap((state) => (JSON.parse(state) as ChunkState).runs);
  return runs.reduce((sum, [count, lease]) => sum + (lease > 0 ? count : 0), 0);
}

async function statesOf(key: Key): Promise<string[]> {
  const rows = await vhostRows<{ state: string }>(key, 'SELECT state FROM chunk ORDER BY position');
  return rows.map(({ state }) => state);
}

/** The events in each chunk row, in order. */
async function texts(key: Key): Promise<string[]> {
  const rows = await vhostRows<{ data: string }>(
    key,
    "SELECT data FROM chunk WHERE queue = 'event.telemetry' ORDER BY position",
  );
  return rows.map(({ data }) => data);
}

/** A key with a backlog of undelivered telemetry, and its client. */
async function backlog(count = EVENTS) {
  const scene = await setScene({ partner: 'connected' });
  for (let from = 1; from <= count; from += 100) {
    await hand(scene.key, scene.siteId, from, Math.min(100, count - from + 1), {
      kind: 'telemetry',
      chars: CHARS,
    });
  }
  return scene;
}

describe('telemetry events that wait for a client', () => {
  it('are stored when the call that brought them returns, so a crash loses none [C-6.4]', async () => {
    const { restart } = await backlog(250);
    const again = await restart();
    expect(await again.readyCount('event.telemetry')).toBe(250);
    await again.consume('event.telemetry', { noAck: true });
    expect((await again.delivered(250)).map(numberOf)).toEqual(range(1, 250));
  });

  it('are appended: the earlier text of a row stays as it is (rule 9)', async () => {
    const { key, siteId } = await setScene({ partner: 'connected' });
    let before: string[] = [];
    for (let from = 1; from <= 401; from += 100) {
      await hand(key, siteId, from, 100, { kind: 'telemetry', chars: CHARS });
      const after = await texts(key);
      for (const [index, text] of before.entries()) expect(after[index]?.startsWith(text)).toBe(true);
      before = after;
    }
    expect(before.join('').length).toBeGreaterThan(400 * CHARS);
  });
});

describe('an event that waits for a client', () => {
  it('writes at most 16 KiB on average when it arrives, not its whole chunk again (rule 9)', async () => {
    const { key, siteId } = await setScene({ partner: 'connected' });
    await vhostRows(key, 'CREATE TABLE written (chars INTEGER NOT NULL)');
    for (const event of ['INSERT', 'UPDATE']) {
      await vhostRows(
        key,
        `CREATE TRIGGER count_${event} AFTER ${event} ON chunk
          BEGIN INSERT INTO written (chars) VALUES (length(NEW.data)); END`,
      );
    }
    for (let number = 1; number <= 300; number++) {
      await hand(key, siteId, number, 1, { kind: 'telemetry', chars: CHARS });
    }
    const [written] = await vhostRows<{ chars: number }>(key, 'SELECT sum(chars) AS chars FROM written');
    expect((written?.chars ?? Number.POSITIVE_INFINITY) / 300).toBeLessThanOrEqual(WRITTEN_CHARS);
  });
});

describe('the rows of a backlog', () => {
  it('keep their text when their events are delivered, acknowledged, requeued or discarded (rule 9)', async () => {
    const { key, partner } = await backlog();
    const before = await texts(key);
    expect(before.join('').length).toBeGreaterThan(EVENTS * CHARS);
    await partner.consume('event.telemetry', { prefetch: 300 });
    const held = await partner.delivered(300);
    await untilHeld(key, 300);
    partner.settle('ack', held.slice(0, 10));
    partner.settle('requeue', held.slice(20, 25));
    partner.settle('discard', held.slice(30, 31));
    // The sixteen acknowledgements make room for sixteen more: the five requeued events, and eleven new ones.
    await partner.delivered(316);
    await untilHeld(key, 300);
    expect(await texts(key)).toEqual(before);
  });

  it('have no leases in the text of their events: leases are in a separate, small column (rule 9)', async () => {
    const { key, partner } = await backlog();
    await partner.consume('event.telemetry');
    await partner.delivered(EVENTS);
    await untilHeld(key, EVENTS);
    for (const state of await statesOf(key)) expect(state.length).toBeLessThanOrEqual(STATE_CHARS);
    for (const text of await texts(key))
      expect(text).not.toContain(partner.deliveries()[0]?.lease.toString());
  });

  it('are deleted with their leases as soon as all of their events are acknowledged (rule 9)', async () => {
    const { key, partner } = await backlog();
    await partner.consume('event.telemetry');
    const all = await partner.delivered(EVENTS);
    await untilHeld(key, EVENTS);
    partner.settle('ack', all);
    await vi.waitFor(async () => expect(await texts(key)).toEqual([]), 10_000);
  });
});

describe('leases of a backlog', () => {
  it('survive a sleep: leased events stay leased, acknowledged ones stay deleted, requeued ones are delivered again (rule 8)', async () => {
    const { key, partner } = await backlog(20);
    await partner.consume('event.telemetry', { prefetch: 10 });
    const held = await partner.delivered(10);
    partner.settle('ack', held.slice(0, 2));
    await partner.delivered(12);
    await untilHeld(key, 10);
    await evictDurableObject(vhostOf(key.id));
    await partner.quiet();
    expect(partner.deliveries()).toHaveLength(12);
    partner.settle('requeue', held.slice(2, 3));
    await partner.delivered(13);
    expect(markedNumbers(partner).at(-1)).toBe('3*');
    partner.settle('ack', [...held.slice(3), ...partner.deliveries().slice(10)]);
    await partner.delivered(20);
    await partner.quiet();
    expect(new Set(partner.deliveries().map(numberOf)).size).toBe(20);
  });

  it('are released if a crash of the object closed their connection: unacknowledged events are delivered again, in order (rule 8)', async () => {
    const { key, partner, restart } = await backlog(50);
    await partner.consume('event.telemetry', { prefetch: 30 });
    const held = await partner.delivered(30);
    partner.settle(
      'ack',
      [held[1], held[3], held[29]].flatMap((one) => one ?? []),
    );
    await partner.quiet();
    await untilHeld(key, 30);
    const again = await restart();
    await again.consume('event.telemetry');
    const expected = range(1, 50).filter((number) => ![2, 4, 30].includes(number));
    expect((await again.delivered(47)).map(numberOf)).toEqual(expected);
    await again.quiet();
    expect(again.deliveries()).toHaveLength(47);
  });
});
