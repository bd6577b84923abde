/** How much a consumer gets at once: limits by prefetch, by channel, by connection bytes, and by turn. */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { hand, numbers, range } from '#workerd/outbox-events.ts';
import { Partner } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { vhostOf } from '#workerd/world.ts';
import { DELIVERY_WINDOW_BYTES, messageBytes } from '../../../../protocol/link/vhost.ts';

describe('the prefetch of a consumer', () => {
  it('limits its unacknowledged messages: after each acknowledgement it receives one more [C-6.4]', async () => {
    const { partner } = await setScene({ held: { count: 5, prefetch: 2 } });
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2]);
    partner.settle('ack', partner.deliveries().slice(0, 1));
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2, 3]);
    partner.settle('ack', partner.deliveries().slice(1, 3));
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2, 3, 4, 5]);
  });

  it('is per consumer: two consumers of a channel each have their own [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    await partner.consume('event.status', { tag: 'a', prefetch: 1 });
    await partner.consume('event.status', { tag: 'b', prefetch: 2 });
    await hand(key, siteId, 1, 5);
    await partner.quiet();
    expect([partner.deliveries('a').length, partner.deliveries('b').length]).toEqual([1, 2]);
  });

  it('means no limit if it is 0 [C-6.4]', async () => {
    const { partner } = await setScene({ events: 600, consumes: { queue: 'event.status', prefetch: 0 } });
    await partner.delivered(600);
    expect(numbers(partner)).toEqual(range(1, 600));
  });

  it('does not apply to a consumer with noAck [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    partner.link.send({ kind: 'qos', channel: 1, prefetch: 1 });
    await partner.consume('event.status', { prefetch: 1, noAck: true });
    await hand(key, siteId, 1, 5);
    const delivered = await partner.delivered(5);
    expect(delivered.map(({ lease }) => lease)).toEqual([0, 0, 0, 0, 0]);
    expect(await partner.readyCount('event.status')).toBe(0);
  });
});

describe('the shared limit of a channel', () => {
  it('limits the unacknowledged messages of all its consumers together, and those of no other channel [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    partner.link.send({ kind: 'qos', channel: 1, prefetch: 3 });
    await partner.consume('event.status', { tag: 'a' });
    await partner.consume('event.execution', { tag: 'b' });
    await hand(key, siteId, 1, 2);
    await hand(key, siteId, 3, 5, { kind: 'execution' });
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2, 3]);
    await partner.consume('event.execution', { tag: 'c', channel: 2, prefetch: 2 });
    await partner.quiet();
    expect(numbers(partner, 'c')).toEqual([4, 5]);
    partner.settle('ack', partner.deliveries('a'));
    await partner.quiet();
    expect(numbers(partner, 'b')).toEqual([3, 6, 7]);
  });

  it('applies in addition to the prefetch of each consumer: the smaller one decides [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    partner.link.send({ kind: 'qos', channel: 1, prefetch: 3 });
    await partner.consume('event.status', { tag: 'a', prefetch: 1 });
    await partner.consume('event.status', { tag: 'b', prefetch: 9 });
    await hand(key, siteId, 1, 9);
    await partner.quiet();
    expect([partner.deliveries('a').length, partner.deliveries('b').length]).toEqual([1, 2]);
  });

  it('allows further deliveries as soon as it is raised or removed [C-6.4]', async () => {
    const { partner } = await setScene({ held: { count: 9, channelLimit: 1 } });
    partner.link.send({ kind: 'qos', channel: 1, prefetch: 4 });
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2, 3, 4]);
    partner.link.send({ kind: 'qos', channel: 1, prefetch: 0 });
    await partner.delivered(9);
  });

  it('still applies after the object has slept', async () => {
    const { key, partner } = await setScene({ held: { count: 9, channelLimit: 2 } });
    await evictDurableObject(vhostOf(key.id));
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2]);
    partner.settle('ack', partner.deliveries());
    await partner.delivered(4);
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2, 3, 4]);
  });

  it('does not count messages taken by basic.get, as in RabbitMQ [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    partner.link.send({ kind: 'qos', channel: 1, prefetch: 1 });
    await hand(key, siteId, 1, 3);
    await partner.get('event.status');
    await partner.consume('event.status');
    await partner.quiet();
    expect(numbers(partner)).toEqual([2]);
  });
});

describe('the byte credit of a connection', () => {
  const chars = 60_000;

  it.each([false, true])(
    'stops deliveries when the window is full, until the client drains bytes, with noAck %s (rule 9)',
    async (noAck) => {
      const { key, partner, siteId } = await setScene({ consumes: { queue: 'event.status', noAck } });
      await hand(key, siteId, 1, 40, { chars });
      await partner.quiet();
      const first = partner.deliveries().map(messageBytes);
      const total = first.reduce((sum, bytes) => sum + bytes, 0);
      expect(total).toBeGreaterThanOrEqual(DELIVERY_WINDOW_BYTES);
      expect(total - (first.at(-1) ?? 0)).toBeLessThan(DELIVERY_WINDOW_BYTES);

      partner.settle('ack', partner.deliveries());
      await partner.quiet();
      expect(partner.deliveries()).toHaveLength(first.length);

      partner.link.send({ kind: 'credit', drainedBytes: total - DELIVERY_WINDOW_BYTES + 1 });
      await partner.quiet();
      expect(partner.deliveries()).toHaveLength(first.length + 1);

      partner.link.send({ kind: 'credit', drainedBytes: total });
      await partner.quiet();
      expect(partner.deliveries()).toHaveLength(2 * first.length);
      expect(numbers(partner)).toEqual(range(1, 2 * first.length));
    },
  );

  it('is separate: a connection that does not read slows no other (rule 9)', async () => {
    const { organization, key, partner, siteId } = await setScene({ partner: 'connected' });
    await partner.consume('event.status', { tag: 'stuck' });
    await hand(key, siteId, 1, 20, { chars });
    await partner.quiet();
    const stuck = partner.deliveries().length;
    expect(stuck).toBeLessThan(20);
    const other = await Partner.connect(organization, key);
    await other.consume('event.status');
    await other.delivered(20 - stuck);
    expect(numbers(other)).toEqual(range(stuck + 1, 20 - stuck));
  });

  it('is not granted a second time after the object has slept (rule 9)', async () => {
    const { key, partner, siteId } = await setScene({ consumes: 'event.status' });
    await hand(key, siteId, 1, 40, { chars });
    await partner.quiet();
    const sent = partner.deliveries().length;
    await evictDurableObject(vhostOf(key.id));
    await partner.quiet();
    expect(partner.deliveries()).toHaveLength(sent);
  });
});

describe('consumers of one queue', () => {
  it('get the messages alternately, also on different connections [C-6.4]', async () => {
    const { key, partner, siteId, connect } = await setScene({ partner: 'connected' });
    const other = await connect();
    await partner.consume('event.status');
    await other.consume('event.status');
    await hand(key, siteId, 1, 6);
    await Promise.all([partner.delivered(3), other.delivered(3)]);
    expect(numbers(partner)).toEqual([1, 3, 5]);
    expect(numbers(other)).toEqual([2, 4, 6]);
  });

  it('get the messages that another one cannot get because its prefetch is full [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    await partner.consume('event.status', { tag: 'a', prefetch: 1 });
    await partner.consume('event.status', { tag: 'b' });
    await hand(key, siteId, 1, 5);
    await partner.delivered(5);
    expect([numbers(partner, 'a'), numbers(partner, 'b')]).toEqual([[1], [2, 3, 4, 5]]);
  });
});
