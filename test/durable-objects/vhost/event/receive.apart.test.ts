/**
 * Events that sites send to a Vhost: stored once and in order if the key may see the site, and otherwise not
 * stored.
 */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import {
  hand,
  numberOf,
  numbers,
  outboxEvents,
  passingEvents,
  range,
  taken,
} from '#workerd/outbox-events.ts';
import { breakWrites, commandLog, consumption, eventOf, Partner, vhostRows } from '#workerd/partner.ts';
import { ACKS, setScene } from '#workerd/scene.ts';
import { type Key, siteOf, vhostOf } from '#workerd/world.ts';
import { Turns } from '../../../../durable-objects/object/turn.ts';
import type { Vhost } from '../../../../durable-objects/vhost.ts';

const EVERY = { writes: ['INSERT', 'UPDATE'] } as const;

describe('events that many sites send concurrently', () => {
  /** Calls that all arrive before the first of them is durable. */
  async function handTogether(key: Key, siteIds: readonly string[], meanwhile?: (vhost: Vhost) => void) {
    const transactions = vi.spyOn(Turns.prototype, 'run');
    return await runInDurableObject(vhostOf(key.id), async (vhost: Vhost) => {
      const before = transactions.mock.calls.length;
      const calls = siteIds.map((siteId) => vhost.receive(siteId, outboxEvents(1, 2)));
      meanwhile?.(vhost);
      const receipts = await Promise.all(calls);
      return { receipts, transactions: transactions.mock.calls.length - before };
    });
  }

  it('need two transactions, one for the first site and one for all others, and are stored once, in order (rule 5)', async () => {
    const { key, partner } = await setScene({ consumes: ACKS });
    const siteIds = Array.from({ length: 20 }, () => crypto.randomUUID());
    const { receipts, transactions } = await handTogether(key, siteIds);
    expect(receipts.map(taken)).toEqual(siteIds.map(() => 2));
    expect(transactions).toBe(2);
    const seen = (await partner.delivered(40)).map((delivery) => [
      eventOf(delivery).siteId,
      numberOf(delivery),
    ]);
    expect(seen).toEqual(siteIds.flatMap((siteId) => [1, 2].map((number) => [siteId, number])));
    for (const siteId of siteIds) expect(await hand(key, siteId, 1, 2)).toEqual(receipts[0]);
    await partner.quiet();
    expect(partner.deliveries()).toHaveLength(40);
  });

  it('are not stored when the key is revoked while they wait; the answer to their sites says gone [C-5.6]', async () => {
    const { key } = await setScene({ partner: 'connected' });
    const siteIds = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
    const { receipts } = await handTogether(key, siteIds, (vhost) => void vhost.revoke());
    expect(receipts.slice(1)).toEqual([
      { received: 0, gone: true },
      { received: 0, gone: true },
    ]);
    expect(await vhostRows(key, 'SELECT * FROM chunk')).toEqual([]);
    expect(await vhostRows(key, 'SELECT * FROM received')).toEqual([]);
  });
});

describe("events from a site's outbox", () => {
  it('are delivered once each, in order, although the site sends some of them again (rule 5)', async () => {
    const { key, partner, siteId } = await setScene({ consumes: ACKS });
    expect(taken(await hand(key, siteId, 1, 3))).toBe(3);
    expect(taken(await hand(key, siteId, 1, 3))).toBe(3);
    expect(taken(await hand(key, siteId, 2, 5))).toBe(6);
    expect(taken(await hand(key, siteId, 4, 1))).toBe(6);
    expect(taken(await hand(key, siteId, 7, 0))).toBe(6);
    await partner.quiet();
    expect(numbers(partner)).toEqual(range(1, 6));
  });

  it('are recognised when they are sent again after a sleep, and after a crash of the object (rule 5)', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected', events: 3 });
    await evictDurableObject(vhostOf(key.id));
    await hand(key, siteId, 1, 4);
    await evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
    expect(await hand(key, siteId, 1, 4)).toEqual({ received: 4, gone: false });
    const again = await Partner.connect(partner.organization, key);
    await again.consume('event.status');
    await again.quiet();
    expect(numbers(again)).toEqual([1, 2, 3, 4]);
  });

  it('may skip sequence numbers, because a site uses some for other keys: all of them are delivered (rule 5)', async () => {
    const { key, partner, siteId } = await setScene({ consumes: ACKS });
    const events = outboxEvents(1, 9).filter(({ sequence }) => sequence % 3 === 0);
    expect(taken(await vhostOf(key.id).receive(siteId, events))).toBe(9);
    await partner.quiet();
    expect(numbers(partner)).toEqual([3, 6, 9]);
  });

  it('are numbered separately by each site (rule 5)', async () => {
    const { key, partner, siteId } = await setScene({ consumes: ACKS });
    await hand(key, siteId, 1, 3);
    expect(taken(await hand(key, crypto.randomUUID(), 1, 2))).toBe(2);
    await partner.quiet();
    expect(numbers(partner)).toEqual([1, 2, 3, 1, 2]);
  });

  it('go to the queue and the routing key of their kind [C-8.1]', async () => {
    const { organization, key, partner, siteId } = await setScene({ partner: 'connected' });
    const kinds = ['telemetry', 'alarm', 'ack', 'execution'] as const;
    for (const [index, kind] of kinds.entries()) await hand(key, siteId, index + 1, 1, { kind });
    const { slug } = organization;
    for (const [queue, routingKey] of [
      ['event.telemetry', `${slug}.event.telemetry`],
      ['event.alarm', `${slug}.event.alarm`],
      ['event.status', `${slug}.event.command.ack`],
      ['event.execution', `${slug}.event.execution`],
    ] as const) {
      const got = await partner.get(queue);
      expect([got.delivery?.routingKey, got.messageCount]).toEqual([routingKey, 0]);
    }
  });

  it('are dropped if the key may not see their plant; the answer says that they were received [C-8.1]', async () => {
    const { key, partner, siteId } = await setScene({
      partner: 'connected',
      key: { allowedPlantIds: [crypto.randomUUID()] },
    });
    const other = crypto.randomUUID();
    for (const kind of ['alarm', 'telemetry', 'ack', 'execution'] as const) {
      await hand(key, crypto.randomUUID(), 1, 1, { kind });
    }
    expect(await hand(key, other, 1, 3, { kind: 'alarm' })).toEqual({ received: 3, gone: false });
    expect(await vhostOf(key.id).receivePassing(other, passingEvents(1, 3))).toBe('taken');
    for (const queue of ['event.alarm', 'event.telemetry', 'event.status', 'event.execution'] as const) {
      expect(await partner.readyCount(queue)).toBe(0);
    }
    await hand(key, siteId, 1, 1, { kind: 'alarm' });
    expect(await partner.readyCount('event.alarm')).toBe(1);
  });

  it("fill no queue before the key's first connection, and fill the queues from then on [C-6.1]", async () => {
    const { organization, key } = await setScene({ key: true });
    const siteId = crypto.randomUUID();
    expect(taken(await hand(key, siteId, 1, 2))).toBe(2);
    await vhostOf(key.id).receivePassing(siteId, passingEvents(1, 2));
    const first = await Partner.connect(organization, key);
    expect(await first.readyCount('event.status')).toBe(0);
    expect(await first.readyCount('event.telemetry')).toBe(0);
    first.link.socket.close();
    await hand(key, siteId, 1, 4);
    const second = await Partner.connect(organization, key);
    await second.consume('event.status');
    await second.delivered(2);
    expect(numbers(second)).toEqual([3, 4]);
  });

  it('for a vhost that was never opened get the answer "gone"', async () => {
    const stranger = vhostOf(crypto.randomUUID());
    expect(await stranger.receive('site', outboxEvents(1, 1))).toEqual({ received: 0, gone: true });
    expect(await stranger.receivePassing('site', passingEvents(1, 1))).toBe('gone');
  });
});

describe('a write that fails', () => {
  it('restarts the object before it answers; the site sends its events again, and they are stored once (rule 3)', async () => {
    const { organization, key, partner, siteId } = await setScene({ partner: 'connected', events: 2 });
    const mend = await breakWrites(key, 'chunk', EVERY);
    await expect(hand(key, siteId, 3, 2)).rejects.toThrow();
    await partner.link.untilClosed();
    await mend();
    expect(await hand(key, siteId, 3, 2)).toEqual({ received: 4, gone: false });
    const again = await Partner.connect(organization, key);
    await again.consume('event.status');
    await again.quiet();
    expect(numbers(again)).toEqual([1, 2, 3, 4]);
  });

  it('leaves, for an acknowledgement, its publish unconfirmed; the site sends the acknowledgement again, once (rule 5)', async () => {
    const { organization, plant, key, partner } = await setScene({ plant: true, partner: 'connected' });
    const mend = await breakWrites(key, 'chunk', EVERY);
    const questions = ['corr-1', 'corr-2', 'corr-3'].map((correlationId) =>
      partner.command(plant.id, 'mode', { mode: 'STANDARD' }, { correlationId }),
    );
    partner.link.send(...questions.map((question, index) => ({ ...question, seq: index + 1 })));
    await partner.link.untilClosed();
    expect(partner.link.received.some(({ kind }) => kind === 'stored')).toBe(false);
    expect((await commandLog(plant.id)).total).toBe(3);

    await mend();
    const again = await Partner.connect(organization, key);
    await again.consume('event.status', { noAck: true });
    vi.setSystemTime(Date.now() + 10_000);
    await runDurableObjectAlarm(siteOf(plant.id));
    await again.delivered(3);
    vi.setSystemTime(Date.now() + 10_000);
    await runDurableObjectAlarm(siteOf(plant.id));
    await again.quiet();
    const correlationIds = () => again.deliveries().map((delivery) => eventOf(delivery).correlationId);
    expect(correlationIds()).toEqual(['corr-1', 'corr-2', 'corr-3']);

    // The client sends its first publish again, as it must: it gets the same acknowledgement, and there is no
    // second effect.
    const [first] = again.deliveries();
    if (questions[0]) expect(await again.ask(questions[0])).toMatchObject({ kind: 'stored' });
    const repeat = (await again.delivered(4)).at(-1);
    expect(repeat && eventOf(repeat).messageId).toBe(first && eventOf(first).messageId);
    expect((await commandLog(plant.id)).total).toBe(3);
  });

  it('leaves, for a dead letter, its publish unconfirmed; the restarted object stores it when it is sent again (rule 3)', async () => {
    const { organization, key, partner } = await setScene({ partner: 'connected' });
    const mend = await breakWrites(key, 'chunk', EVERY);
    const malformed = { ...partner.command('x', 'mode', {}), body: 'not JSON' };
    partner.link.send({ ...malformed, seq: 1 });
    await partner.link.untilClosed();
    expect(partner.link.received.filter(({ kind }) => kind === 'stored')).toEqual([]);
    await mend();
    const again = await Partner.connect(organization, key);
    expect(await again.ask(malformed)).toMatchObject({ kind: 'stored' });
    expect(await again.readyCount('dead-letter')).toBe(1);
  });

  it('delivers nothing if it is of a lease; the restarted object delivers the messages, and not as redelivered (rule 3)', async () => {
    const { organization, key, partner } = await setScene({ partner: 'connected', events: 2 });
    const mend = await breakWrites(key, 'chunk', EVERY);
    partner.link.send({ ...consumption(partner.queueName('event.status')), seq: 1 });
    await partner.link.untilClosed();
    expect(partner.deliveries()).toEqual([]);
    await mend();
    const again = await Partner.connect(organization, key);
    await again.consume('event.status');
    const all = await again.delivered(2);
    expect(all.map(({ redelivered }) => redelivered)).toEqual([false, false]);
  });
});
