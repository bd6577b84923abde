/**
 * A vhost that leaves memory, with or without its sockets: its leases, and the messages that wait (rule 8).
 */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { hand, markedNumbers, numberOf } from '#workerd/outbox-events.ts';
import { untilStored, vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { vhostOf } from '#workerd/world.ts';

describe('a vhost that sleeps with its sockets open', () => {
  it('keeps leases: no message is delivered twice, and an acknowledgement still settles its message (rule 8)', async () => {
    const { key, partner, restart, held } = await setScene({ held: { count: 5, prefetch: 3 } });
    await evictDurableObject(vhostOf(key.id));
    await partner.quiet();
    expect(markedNumbers(partner)).toEqual(['1', '2', '3']);
    partner.settle('ack', held.slice(0, 2));
    await partner.delivered(5);
    expect(markedNumbers(partner)).toEqual(['1', '2', '3', '4', '5']);
    partner.settle('ack', partner.deliveries().slice(2));
    await partner.quiet();
    const again = await restart();
    expect(await again.get('event.status')).toMatchObject({ delivery: null, messageCount: 0 });
    expect(await vhostRows(key, 'SELECT * FROM chunk')).toEqual([]);
  });

  it('keeps leases over several sleeps: the client can still requeue one and discard another (rule 8)', async () => {
    const { key, partner, held } = await setScene({ held: { count: 2, prefetch: 2 } });
    const [first, second] = held;
    await evictDurableObject(vhostOf(key.id));
    await partner.quiet();
    await evictDurableObject(vhostOf(key.id));
    partner.settle('requeue', [first]);
    await partner.delivered(3);
    await evictDurableObject(vhostOf(key.id));
    partner.settle('discard', [second]);
    const dead = await partner.get('dead-letter');
    expect(dead.delivery && numberOf(dead.delivery)).toBe(2);
    expect(markedNumbers(partner)).toEqual(['1', '2', '1*']);
  });

  it('keeps messages taken by basic.get leased (rule 8)', async () => {
    const { key, partner } = await setScene({ partner: 'connected', events: 2 });
    const got = await partner.get('event.status');
    await evictDurableObject(vhostOf(key.id));
    expect(await partner.readyCount('event.status')).toBe(1);
    partner.settle('requeue', [got.delivery]);
    expect(await partner.get('event.status')).toMatchObject({
      delivery: { body: got.delivery?.body, redelivered: true },
    });
  });

  it('keeps consumers and prefetch: the woken object delivers new events', async () => {
    const { key, partner, siteId } = await setScene({ consumes: { queue: 'event.status', prefetch: 2 } });
    await partner.consume('event.alarm', { noAck: true });
    await evictDurableObject(vhostOf(key.id));
    await hand(key, siteId, 1, 5);
    await hand(key, siteId, 6, 5, { kind: 'alarm' });
    await partner.quiet();
    expect(partner.deliveries('event.status').map(numberOf)).toEqual([1, 2]);
    expect(partner.deliveries('event.alarm').map(numberOf)).toEqual([6, 7, 8, 9, 10]);
  });

  it('keeps the count of deliveries over all sleeps: a requeue after the 20th makes a dead letter [C-6.4]', async () => {
    const { key, partner } = await setScene({ held: { count: 1, prefetch: 1 } });
    for (let count = 1; count <= 20; count++) {
      const last = (await partner.delivered(count)).slice(-1);
      if (count % 5 === 0) await evictDurableObject(vhostOf(key.id));
      partner.settle('requeue', last);
    }
    expect(await partner.readyCount('dead-letter')).toBe(1);
    expect(partner.deliveries()).toHaveLength(20);
  });
});

describe('a vhost that restarts after a crash that closed its sockets', () => {
  it('delivers leased messages again as redelivered, and undelivered ones as new (rule 8)', async () => {
    const { partner, restart } = await setScene({ held: { count: 5, prefetch: 3 } });
    partner.settle('ack', (await partner.delivered(3)).slice(0, 1));
    await partner.delivered(4);
    await partner.quiet();
    const again = await restart();
    await again.consume('event.status');
    await again.delivered(4);
    await again.quiet();
    expect(markedNumbers(again)).toEqual(['2*', '3*', '4*', '5']);
  });

  it('has none of the earlier consumers and connections (rule 8)', async () => {
    const { key, partner, siteId, restart } = await setScene({ partner: 'connected' });
    partner.link.send({ kind: 'qos', channel: 1, prefetch: 1 });
    await partner.consume('event.status', { exclusive: true });
    const again = await restart();
    expect(await again.consume('event.status', { exclusive: true })).toMatchObject({ kind: 'ok' });
    await hand(key, siteId, 1, 2);
    await again.delivered(2);
    const rows = 'SELECT connection_id FROM consumer UNION ALL SELECT connection_id FROM channel_limit';
    expect(await vhostRows(key, rows)).toHaveLength(1);
    expect(await vhostRows(key, 'SELECT id FROM connection')).toHaveLength(1);
  });

  it('ignores acknowledgements that name leases of the lost connection (rule 8)', async () => {
    const { key, restart, held: stale } = await setScene({ held: 2 });
    await untilStored(key, 2);
    const again = await restart();
    again.settle('ack', stale);
    expect(await again.readyCount('event.status')).toBe(2);
  });

  it('does not restore leases of the lost connection when it sleeps and wakes again (rule 8)', async () => {
    const { key, restart } = await setScene({ held: 2 });
    await untilStored(key, 2);
    const again = await restart();
    await again.quiet();
    await evictDurableObject(vhostOf(key.id));
    expect(await again.readyCount('event.status')).toBe(2);
    await again.consume('event.status');
    await again.delivered(2);
    expect(markedNumbers(again)).toEqual(['1*', '2*']);
  });
});

describe('a dead letter that is stored, read by basic.get and recovered in one batch of frames', () => {
  it('is in its queue once, marked as redelivered, also after a sleep [C-6.4]', async () => {
    const { key, partner } = await setScene({ partner: 'connected' });
    const queue = partner.queueName('dead-letter');
    const get = { kind: 'get', queue, channel: 1, noAck: false } as const;
    const malformed = { ...partner.command('x', 'mode', {}), body: 'not JSON' };
    const answers = await partner.askAll(malformed, get, { kind: 'recover', channel: 1 }, get);
    expect(answers).toMatchObject([
      { kind: 'stored' },
      { kind: 'got', delivery: { body: 'not JSON', redelivered: false } },
      { kind: 'ok' },
      { kind: 'got', delivery: { body: 'not JSON', redelivered: true } },
    ]);
    await partner.ask({ kind: 'recover', channel: 1 });
    await evictDurableObject(vhostOf(key.id));
    expect(await partner.readyCount('dead-letter')).toBe(1);
  });
});
