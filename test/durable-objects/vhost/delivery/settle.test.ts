/** The ends of a delivery: acknowledged, requeued, discarded, or returned when its channel closes [C-6.4]. */
import { describe, expect, it } from 'vitest';
import { hand, markedNumbers, numberOf, range } from '#workerd/outbox-events.ts';
import { vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';

const KINDS = [
  { queue: 'event.status', kind: 'ack' },
  { queue: 'event.telemetry', kind: 'telemetry' },
] as const;

/**
 * Both kinds of queue make the same guarantees: one row for each message, and telemetry in memory with
 * chunks.
 */
describe.each(KINDS)('settling deliveries of $queue', ({ queue, kind }) => {
  it('ack: the message is permanently deleted [C-6.4]', async () => {
    const { key, partner, connect, held } = await setScene({ held: { count: 3, queue } });
    partner.settle('ack', held);
    await partner.quiet();
    partner.link.socket.close();
    const again = await connect();
    await again.consume(queue);
    await again.quiet();
    expect(again.deliveries()).toEqual([]);
    expect(await vhostRows(key, 'SELECT 1 AS left_over FROM chunk')).toEqual([]);
  });

  it('requeue: the message is delivered again, as redelivered, before messages that were never delivered [C-6.4]', async () => {
    const { partner, held } = await setScene({ held: { count: 6, queue, prefetch: 4 } });
    const [first, second, third] = held;
    partner.settle('requeue', [third]);
    await partner.delivered(5);
    partner.settle('requeue', [second, first]);
    await partner.delivered(7);
    await partner.quiet();
    expect(markedNumbers(partner)).toEqual(['1', '2', '3', '4', '3*', '1*', '2*']);
  });

  it('requeue: 50 messages that are requeued in reverse are delivered again in their original order [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ consumes: { queue, prefetch: 50, tag: 'a' } });
    await hand(key, siteId, 1, 80, { kind });
    const held = await partner.delivered(50);
    await partner.ask({ kind: 'cancel', channel: 1, tag: 'a' });
    partner.settle('requeue', held.toReversed());
    await partner.consume(queue, { tag: 'b' });
    await partner.delivered(80, 'b');
    const expected = range(1, 80).map((number) => (number <= 50 ? `${number}*` : `${number}`));
    expect(markedNumbers(partner, 'b')).toEqual(expected);
  });

  it('discard: the message moves to the dead-letter queue with the reason, and a discard there deletes it [C-6.4]', async () => {
    const { partner, held } = await setScene({ held: { count: 2, queue } });
    const [first] = held;
    partner.settle('discard', [first]);
    const dead = await partner.get('dead-letter');
    expect(dead.delivery).toMatchObject({
      body: first?.body,
      routingKey: first?.routingKey,
      redelivered: false,
      properties: {
        messageId: first?.properties.messageId,
        headers: { 'x-death-reason': 'rejected', 'x-death-routing-key': first?.routingKey },
      },
    });
    partner.settle('discard', [dead.delivery]);
    expect(await partner.readyCount('dead-letter')).toBe(0);
    await partner.quiet();
    expect(markedNumbers(partner)).toEqual(['1', '2']);
  });

  it('20 deliveries: a requeue after the 20th sends the message to the dead-letter queue instead [C-6.4]', async () => {
    const { partner } = await setScene({ held: { count: 2, queue, prefetch: 1 } });
    for (let count = 1; count <= 20; count++) {
      partner.settle('requeue', (await partner.delivered(count)).slice(-1));
    }
    await partner.delivered(21);
    expect(markedNumbers(partner)).toEqual(['1', ...Array(19).fill('1*'), '2']);
    expect((await partner.get('dead-letter')).delivery).toMatchObject({
      body: partner.deliveries()[0]?.body,
      properties: { headers: { 'x-death-reason': 'delivery_limit' } },
    });
  });

  it('a lease settles once: settling it again, or settling an unknown one, changes nothing [C-6.4]', async () => {
    const { partner, held } = await setScene({ held: { count: 4, queue, prefetch: 1 } });
    const [first] = held;
    if (!first) throw new Error('nothing came');
    partner.settle('ack', [first, first]);
    partner.settle('requeue', [first]);
    partner.settle('discard', [first]);
    partner.settle('ack', [{ lease: 0 }, { lease: first.lease + 1_000 }, { lease: -1 }]);
    await partner.delivered(2);
    await partner.quiet();
    expect(markedNumbers(partner)).toEqual(['1', '2']);
    expect(await partner.readyCount('dead-letter')).toBe(0);
  });

  it('noAck: the message is deleted as soon as it was sent [C-6.4]', async () => {
    const { key, partner, siteId, connect } = await setScene({ consumes: { queue, noAck: true } });
    await hand(key, siteId, 1, 3, { kind });
    await partner.delivered(3);
    partner.link.socket.close();
    const again = await connect();
    expect(await again.get(queue)).toMatchObject({ delivery: null });
  });

  it('get: each basic.get returns one message, with the count of the remaining ones [C-6.4]', async () => {
    const { partner } = await setScene({ partner: 'connected', events: { count: 3, kind } });
    const first = await partner.get(queue);
    const second = await partner.get(queue, { noAck: true });
    expect([first.messageCount, second.messageCount]).toEqual([2, 1]);
    expect([first, second].map(({ delivery }) => delivery && numberOf(delivery))).toEqual([1, 2]);
    expect(second.delivery?.lease).toBe(0);
    partner.settle('requeue', [first.delivery]);
    const again = await partner.get(queue);
    expect(again).toMatchObject({
      messageCount: 1,
      delivery: { redelivered: true, body: first.delivery?.body },
    });
    await partner.get(queue);
    expect(await partner.get(queue)).toMatchObject({ messageCount: 0, delivery: null });
  });

  it('recover: the leased messages of the channel are delivered again, those of another channel are not [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    await partner.consume(queue, { tag: 'a', channel: 1, prefetch: 2 });
    await hand(key, siteId, 1, 4, { kind });
    await partner.delivered(2);
    await partner.consume(queue, { tag: 'b', channel: 2 });
    await partner.delivered(4);
    await partner.ask({ kind: 'cancel', channel: 2, tag: 'b' });
    expect(await partner.ask({ kind: 'recover', channel: 1 })).toMatchObject({ kind: 'ok' });
    await partner.quiet();
    expect(markedNumbers(partner, 'a')).toEqual(['1', '2', '1*', '2*']);
    partner.settle('ack', partner.deliveries('a').slice(0, 2));
    partner.settle('ack', partner.deliveries('a').slice(2));
    expect(await partner.readyCount(queue)).toBe(0);
  });

  it('close-channel: its leased messages are delivered on another channel, and its consumers end [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    await partner.consume(queue, { tag: 'a', channel: 1, prefetch: 2 });
    await hand(key, siteId, 1, 3, { kind });
    const [first] = await partner.delivered(2);
    const got = await partner.get(queue, { channel: 1 });
    partner.link.send({ kind: 'close-channel', channel: 1 });
    await partner.consume(queue, { tag: 'b', channel: 2 });
    await partner.delivered(3, 'b');
    expect(markedNumbers(partner, 'b')).toEqual(['1*', '2*', '3*']);
    // Leases of the closed channel no longer settle anything.
    if (first && got.delivery) partner.settle('ack', [first, got.delivery]);
    await partner.ask({ kind: 'recover', channel: 2 });
    await partner.delivered(6, 'b');
    expect(markedNumbers(partner, 'b').slice(3)).toEqual(['1*', '2*', '3*']);
    expect(markedNumbers(partner, 'a')).toEqual(['1', '2']);
  });

  it('passive declare and get count the waiting messages without the leased ones, declare the consumers too [C-6.4]', async () => {
    const { partner } = await setScene({ partner: 'connected', events: { count: 5, kind } });
    expect(await partner.readyCount(queue)).toBe(5);
    await partner.consume(queue, { prefetch: 2 });
    await partner.delivered(2);
    expect(await partner.declare(partner.queueName(queue), { passive: true })).toMatchObject({
      kind: 'ok',
      messageCount: 3,
      consumerCount: 1,
    });
    // Two are leased to the consumer and one to the get.
    expect(await partner.get(queue)).toMatchObject({ messageCount: 2 });
    expect(await partner.readyCount(queue)).toBe(2);
  });
});
