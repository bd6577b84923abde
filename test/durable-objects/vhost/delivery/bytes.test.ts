/**
 * A delivery counts as its transmitted size: body in UTF-8, routing key, properties and headers, plus 64
 * (rule 9).
 */
import { describe, expect, it, vi } from 'vitest';
import { outboxEvents } from '#workerd/outbox-events.ts';
import { type Partner, publishOf, storedMessages, vhostRows } from '#workerd/partner.ts';
import { onQueue } from '#workerd/queues.ts';
import { setScene } from '#workerd/scene.ts';
import { type Key, vhostOf } from '#workerd/world.ts';
import { DELIVERY_WINDOW_BYTES, type Delivery } from '../../../../protocol/link/vhost.ts';

const OWN_BYTES = 64;
/** A content header of 16 KiB, as the bridge passes it on. */
const PROPERTIES_BYTES = 15 * 1024;
const RAW_PROPERTIES = btoa('\x7f'.repeat(PROPERTIES_BYTES));
/** [C-6.4] */
const DEAD_LETTER_BYTES = 16 * 1024 * 1024;

interface Counted {
  bytes: number;
  delivery: Delivery;
}

/** A client that reads, and one that publishes. */
async function openReader() {
  const scene = await setScene({ partner: 'connected' });
  return { ...scene, publisher: scene.partner, partner: await scene.connect() };
}

/** The deliveries so far, each with its size. */
function counted(partner: Partner): Counted[] {
  return partner.link.received.flatMap((frame) => {
    if (frame.kind !== 'deliver' && frame.kind !== 'got') return [];
    const { delivery } = frame;
    return delivery ? [{ delivery, bytes: delivery.bytes }] : [];
  });
}

/** The minimum size of a delivery. */
function leastBytes({ body, routingKey, properties }: Delivery): number {
  const utf8 = (text: string) => new TextEncoder().encode(text).length;
  const raw = properties.raw === undefined ? 0 : atob(properties.raw).length;
  const headers = properties.headers === undefined ? 0 : utf8(JSON.stringify(properties.headers)) / 2;
  return utf8(body) + utf8(routingKey) + raw + headers + OWN_BYTES;
}

/** Fills the dead-letter queue with small bodies under large properties. */
async function deadLetters(partner: Partner, count: number): Promise<void> {
  const malformed = publishOf(partner.routingKey('mode'), 'x', { properties: RAW_PROPERTIES });
  for (let sent = 0; sent < count; sent += 50) {
    await partner.askAll(...Array.from({ length: Math.min(50, count - sent) }, () => malformed));
  }
}

/** Alarms whose text takes three bytes a character. */
async function wideAlarms(key: Key, siteId: string, count: number, chars: number): Promise<void> {
  const events = outboxEvents(1, count, { kind: 'alarm' }).map((event) => ({
    ...event,
    payloadText: JSON.stringify({ filler: '€'.repeat(chars) }),
  }));
  await vhostOf(key.id).receive(siteId, events);
}

describe('a delivery', () => {
  it('states at least its real size in bytes, to a consumer and to basic.get [C-6.4]', async () => {
    const { key, siteId, publisher, partner } = await openReader();
    await deadLetters(publisher, 2);
    await wideAlarms(key, siteId, 2, 1_000);
    await partner.get('dead-letter');
    await partner.get('event.alarm');
    await partner.consume('dead-letter');
    await partner.consume('event.alarm');
    await partner.delivered(2);
    const all = counted(partner);
    expect(all).toHaveLength(4);
    for (const { bytes, delivery } of all) {
      expect(bytes).toBeGreaterThanOrEqual(leastBytes(delivery));
      // Base64 and quotes belong to the link and do not count.
      expect(bytes).toBeLessThanOrEqual(1.5 * leastBytes(delivery) + 500);
    }
  });

  it('states the same size when it is delivered again [C-6.4]', async () => {
    const { key, siteId, partner } = await openReader();
    await wideAlarms(key, siteId, 1, 1_000);
    await partner.consume('event.alarm');
    partner.settle('requeue', await partner.delivered(1));
    await partner.delivered(2);
    const [first, second] = counted(partner).map(({ bytes }) => bytes);
    expect(first).toBeGreaterThan(3_000);
    expect(second).toBe(first);
  });
});

describe('the window of a connection', () => {
  async function expectWindowHolds(partner: Partner, total: number): Promise<void> {
    await partner.quiet();
    const all = counted(partner);
    const sent = all.reduce((sum, { delivery }) => sum + leastBytes(delivery), 0);
    const largest = Math.max(...all.map(({ delivery }) => leastBytes(delivery)));
    expect(sent).toBeGreaterThan(DELIVERY_WINDOW_BYTES / 2);
    expect(sent).toBeLessThanOrEqual(DELIVERY_WINDOW_BYTES + largest);
    expect(all.length).toBeLessThan(total);
  }

  it('includes properties: small bodies with large properties stop at one mebibyte (rule 9)', async () => {
    const { publisher, partner } = await openReader();
    await deadLetters(publisher, 150);
    await partner.consume('dead-letter');
    await expectWindowHolds(partner, 150);
  });

  it('counts bytes, not characters: messages in three-byte characters stop at one mebibyte (rule 9)', async () => {
    const { key, siteId, partner } = await openReader();
    await wideAlarms(key, siteId, 60, 10_000);
    await partner.consume('event.alarm');
    await expectWindowHolds(partner, 60);
  });

  it('grows by exactly the bytes that the client drains, until every message has arrived [C-6.4]', async () => {
    const { key, siteId, partner } = await openReader();
    await wideAlarms(key, siteId, 60, 10_000);
    await partner.consume('event.alarm', { noAck: true });
    await partner.quiet();
    const sentBytes = counted(partner).reduce((sum, { bytes }) => sum + bytes, 0);
    const filled = partner.deliveries().length;
    for (const [undrainedBytes, more] of [
      [DELIVERY_WINDOW_BYTES, 0],
      [DELIVERY_WINDOW_BYTES - 1, 1],
    ] as const) {
      partner.link.send({ kind: 'credit', drainedBytes: sentBytes - undrainedBytes });
      await partner.quiet();
      expect([undrainedBytes, partner.deliveries().length - filled]).toEqual([undrainedBytes, more]);
    }
    for (let rounds = 0; partner.deliveries().length < 60 && rounds < 10; rounds++) {
      const before = partner.deliveries().length;
      const drainedBytes = counted(partner).reduce((sum, { bytes }) => sum + bytes, 0);
      partner.link.send({ kind: 'credit', drainedBytes });
      await partner.delivered(before + 1);
      await partner.quiet();
    }
    expect(partner.deliveries()).toHaveLength(60);
  });
});

describe('a queue', () => {
  it('includes properties in its size: the dead-letter queue keeps at most 16 MiB with them, and drops the rest [C-6.4]', async () => {
    const { key, publisher } = await openReader();
    const count = Math.ceil((1.1 * DEAD_LETTER_BYTES) / PROPERTIES_BYTES);
    await deadLetters(publisher, count);
    const [queue] = await vhostRows<{ bytes: number; dropped: number }>(
      key,
      `SELECT (SELECT sum(byte_count) FROM chunk WHERE queue = 'dead-letter') AS bytes,
        (SELECT dropped_count FROM queue WHERE name = 'dead-letter') AS dropped`,
    );
    expect(queue?.bytes).toBeLessThanOrEqual(DEAD_LETTER_BYTES);
    expect(queue?.bytes).toBeGreaterThan(0.9 * DEAD_LETTER_BYTES);
    expect(queue?.dropped).toBeGreaterThan(0);
    expect((await publisher.readyCount('dead-letter')) + (queue?.dropped ?? 0)).toBe(count);
  });

  it('has no stored bytes left when its messages are acknowledged [C-6.4]', async () => {
    const { key, siteId, publisher, partner } = await openReader();
    await deadLetters(publisher, 3);
    await wideAlarms(key, siteId, 3, 100);
    expect(await storedMessages(key)).toBe(6);
    await partner.consume('dead-letter');
    await partner.consume('event.alarm');
    partner.settle('ack', await partner.delivered(6));
    const rows = 'SELECT queue, byte_count FROM chunk';
    await vi.waitFor(async () => expect(await vhostRows(key, rows)).toEqual([]), 10_000);
    expect(counted(partner).every(({ bytes }) => bytes > OWN_BYTES)).toBe(true);
  });

  it('subtracts for a settled message the size that it added for it: the size of an empty queue is zero [C-6.4]', async () => {
    const [full, leased, empty] = await onQueue('event.alarm', ({ queue, push, next, requeue }) => {
      const sizes = [20, 3_000, 300_000, 1, 40_000];
      for (const [index, chars] of sizes.entries()) push(index + 1, chars);
      const full = queue.open;
      next(1_000, 7);
      requeue(7);
      next(1_000, 8);
      const leased = queue.open;
      requeue(8);
      for (const _ of sizes) next();
      return [full, leased, queue.open];
    });
    expect(full).toMatchObject({ messages: 5 });
    expect(full?.bytes).toBeGreaterThan(343_021);
    expect(leased).toEqual(full);
    expect(empty).toEqual({ messages: 0, bytes: 0 });
  });
});
