/**
 * Leased events: their site keeps them until they are acknowledged or stored, and most of them are never
 * written.
 */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { hand, numbers, range } from '#workerd/outbox-events.ts';
import { storedMessages, untilStored, vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { type Key, vhostOf } from '#workerd/world.ts';
import { VHOST_BOUNDS } from '../../../../durable-objects/vhost/bounds.ts';

async function storedThrough(key: Key): Promise<number | undefined> {
  const [row] = await vhostRows<{ sequence: number }>(key, 'SELECT sequence FROM received');
  return row?.sequence;
}

/** Stops the timer that stores unacknowledged events after a second; it could run in a slow test. */
function stopTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
}

describe('events that are delivered as they arrive', () => {
  it('are not stored, and their site is asked to keep them (rule 5)', async () => {
    stopTimers();
    const { key, receipt } = await setScene({ held: 3 });
    expect(receipt).toEqual({ received: 0, seen: 3, gone: false });
    expect([await storedMessages(key), await storedThrough(key)]).toEqual([0, undefined]);
  });

  it('are never written if they are acknowledged within a second; their site may delete them (rule 9)', async () => {
    const { key, partner, siteId, held } = await setScene({ held: 3 });
    partner.settle('ack', held);
    await partner.quiet();
    expect(await storedMessages(key)).toBe(0);
    await vi.waitFor(async () => expect(await storedThrough(key)).toBe(3), 10_000);
    expect(await hand(key, siteId, 1, 3)).toEqual({ received: 3, gone: false });
    expect(await storedMessages(key)).toBe(0);
    expect(await vhostRows(key, 'SELECT * FROM queue')).toEqual([]);
    await evictDurableObject(vhostOf(key.id));
    expect(await hand(key, siteId, 1, 3)).toEqual({ received: 3, gone: false });
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2, 3]);
  });

  it('are kept by their site from the first unacknowledged one on if only some are acknowledged (rule 5)', async () => {
    stopTimers();
    const { key, partner, siteId, held } = await setScene({ held: 3 });
    partner.settle('ack', [held[0], held[2]]);
    await partner.quiet();
    await vhostOf(key.id).readJournal({ after: 0, limit: 1 });
    expect(await hand(key, siteId, 1, 3)).toEqual({ received: 1, seen: 3, gone: false });
  });

  it('are stored with their leases if they are not acknowledged for a second, and these survive a sleep (rule 8)', async () => {
    const { key, partner, siteId, held } = await setScene({ held: 3 });
    await untilStored(key, 3);
    expect(await hand(key, siteId, 1, 3)).toEqual({ received: 3, gone: false });
    await evictDurableObject(vhostOf(key.id));
    await partner.quiet();
    expect(partner.deliveries()).toHaveLength(3);
    partner.settle('ack', held);
    await partner.quiet();
    await untilStored(key, 0);
  });

  it('are lost when the object crashes, are sent again by their site, and are then delivered once (rule 5)', async () => {
    const { key, siteId, connect } = await setScene({ held: 3 });
    await evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
    expect(await hand(key, siteId, 1, 4)).toEqual({ received: 4, gone: false });
    const again = await connect();
    await again.consume('event.status', { noAck: true });
    await again.delivered(4);
    await again.quiet();
    expect(numbers(again)).toEqual([1, 2, 3, 4]);
  });

  it('are all stored as soon as one more event arrives that has to wait for the client (rule 5)', async () => {
    const { key, siteId } = await setScene({ held: { count: 1, prefetch: 1 } });
    expect(await hand(key, siteId, 2, 1)).toEqual({ received: 2, gone: false });
    expect([await storedMessages(key), await storedThrough(key)]).toEqual([2, 2]);
  });

  it('are stored when their client disconnects, and go to the next client, redelivered (rule 8)', async () => {
    const { key, partner, siteId, connect } = await setScene({ held: 2 });
    partner.link.socket.close();
    await untilStored(key, 2);
    expect(await hand(key, siteId, 1, 2)).toEqual({ received: 2, gone: false });
    const again = await connect();
    await again.consume('event.status');
    const all = await again.delivered(2);
    expect(all.map(({ redelivered }) => redelivered)).toEqual([true, true]);
  });

  it('are stored when too many are unacknowledged, and none is lost when the object sleeps (rule 9)', async () => {
    const { key, siteId, partner } = await setScene({ held: 200 });
    for (let from = 201; from <= VHOST_BOUNDS.unstoredMessages + 200; from += 200) {
      await hand(key, siteId, from, 200);
    }
    const count = VHOST_BOUNDS.unstoredMessages + 1;
    expect(await storedMessages(key)).toBeGreaterThan(0);
    await evictDurableObject(vhostOf(key.id));
    await partner.quiet();
    partner.settle('requeue', await partner.delivered(count));
    await partner.quiet();
    expect(numbers(partner).slice(0, count)).toEqual(range(1, count));
  });
});
