/** Consumers: exclusive and cancelled ones, their tags and number, and the queues that they may read. */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { hand, numberOf, range } from '#workerd/outbox-events.ts';
import { consumption, forbidden, Partner, refused } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { vhostOf } from '#workerd/world.ts';

describe('an exclusive consumer', () => {
  function inUse(partner: Partner) {
    const where = `queue '${partner.queueName('event.status')}' in vhost 'partner-${partner.key.id}'`;
    return refused(403, `ACCESS_REFUSED - ${where} in exclusive use`);
  }

  it('is refused for a queue that already has a consumer [C-6.3]', async () => {
    const { organization, key, partner } = await setScene({ partner: 'connected' });
    const other = await Partner.connect(organization, key);
    await other.consume('event.status');
    expect(await partner.consume('event.status', { exclusive: true })).toMatchObject(inUse(partner));
  });

  it('excludes every other consumer, on its own channel too [C-6.3]', async () => {
    const { organization, key, partner } = await setScene({ partner: 'connected' });
    const other = await Partner.connect(organization, key);
    expect(await partner.consume('event.status', { exclusive: true })).toMatchObject({ kind: 'ok' });
    expect(await partner.consume('event.status', { tag: 'b' })).toMatchObject(inUse(partner));
    expect(await other.consume('event.status')).toMatchObject(inUse(partner));
    expect(await other.consume('event.alarm', { exclusive: true })).toMatchObject({ kind: 'ok' });
  });

  it('still excludes others after the object has slept [C-6.3]', async () => {
    const { organization, key, partner } = await setScene({ partner: 'connected' });
    await partner.consume('event.status', { exclusive: true });
    await evictDurableObject(vhostOf(key.id));
    const other = await Partner.connect(organization, key);
    expect(await other.consume('event.status')).toMatchObject(inUse(partner));
  });

  it('frees the queue when it is cancelled, and when its connection ends [C-6.3]', async () => {
    const { organization, key, partner } = await setScene({ partner: 'connected' });
    await partner.consume('event.status', { exclusive: true });
    await partner.ask({ kind: 'cancel', channel: 1, tag: 'event.status' });
    const other = await Partner.connect(organization, key, { bridge: 'bridge-2' });
    expect(await other.consume('event.status', { exclusive: true })).toMatchObject({ kind: 'ok' });
    // Another boot of its bridge ends the connection at once.
    await Partner.connect(organization, key, { bridge: 'bridge-2', boot: 'boot-2' });
    expect(await partner.consume('event.status', { exclusive: true })).toMatchObject({ kind: 'ok' });
  });
});

describe('a cancelled consumer', () => {
  it('gets nothing more; its leases stay and can be settled [C-6.4]', async () => {
    const { partner, held } = await setScene({ held: { count: 4, prefetch: 2 } });
    const [first, second] = held;
    const cancel = { kind: 'cancel', channel: 1, tag: 'event.status' } as const;
    expect(await partner.ask(cancel)).toMatchObject({ kind: 'ok' });
    await partner.quiet();
    expect(partner.deliveries()).toHaveLength(2);
    expect(await partner.readyCount('event.status')).toBe(2);
    partner.settle('ack', [first]);
    partner.settle('requeue', [second]);
    expect(await partner.readyCount('event.status')).toBe(3);
    const again = await partner.get('event.status');
    expect(again.delivery && numberOf(again.delivery)).toBe(2);
  });

  it('is cancelled successfully even if it never existed, as in RabbitMQ [C-6.3]', async () => {
    const { partner } = await setScene({ partner: 'connected' });
    const cancel = { kind: 'cancel', channel: 7, tag: 'no such tag' } as const;
    expect(await partner.ask(cancel)).toMatchObject({ kind: 'ok' });
  });

  it('does not affect a consumer of the same tag on another channel [C-6.4]', async () => {
    const { key, partner, siteId } = await setScene({ partner: 'connected' });
    await partner.consume('event.status', { tag: 'same', channel: 1 });
    await partner.consume('event.execution', { tag: 'same', channel: 2 });
    await partner.ask({ kind: 'cancel', channel: 1, tag: 'same' });
    await hand(key, siteId, 1, 1);
    await hand(key, siteId, 2, 1, { kind: 'execution' });
    await partner.quiet();
    expect(partner.link.received.filter(({ kind }) => kind === 'deliver')).toMatchObject([
      { channel: 2, tag: 'same' },
    ]);
  });
});

describe('a consumer tag', () => {
  it('is refused with 530 if it is used twice on its channel, as in RabbitMQ; other connections stay open [C-6.3]', async () => {
    const { organization, key, partner } = await setScene({ partner: 'connected' });
    const other = await Partner.connect(organization, key);
    await partner.consume('event.status', { tag: 'ct' });
    partner.link.send({ ...consumption(partner.queueName('event.alarm'), { tag: 'ct' }), seq: 1 });
    const answer = await Promise.race([
      partner.link.next((frame) => frame.kind === 'refused'),
      other.link.untilClosed(),
    ]);
    expect(answer).toMatchObject({
      severity: 'connection',
      code: 530,
      text: "NOT_ALLOWED - attempt to reuse consumer tag 'ct'",
    });
    expect(await other.consume('event.alarm', { tag: 'ct' })).toMatchObject({ kind: 'ok' });
    expect(other.link.closed).toBeUndefined();
  });
});

describe('the consumers of a connection', () => {
  it('are limited to 256: one more is refused with 530, and another connection can still consume [C-6.3]', async () => {
    const { organization, key, partner } = await setScene({ partner: 'connected' });
    const other = await Partner.connect(organization, key);
    const queue = partner.queueName('event.status');
    const consumers = range(1, 256).map((number) => consumption(queue, { tag: `${number}`, noAck: true }));
    const answers = await partner.askAll(...consumers);
    expect(answers.every(({ kind }) => kind === 'ok')).toBe(true);
    const oneMore = await partner.consume('event.alarm', { channel: 2 });
    expect(oneMore).toMatchObject({ kind: 'refused', severity: 'connection', code: 530 });
    expect(await other.consume('event.alarm')).toMatchObject({ kind: 'ok' });
  });
});

describe('the rule on which queues a partner may read', () => {
  const names: [string, (slug: string) => string][] = [
    ['of another organization', () => 'vcp.other.event.status'],
    ['of a slug that begins with its own', (slug) => `vcp.${slug}2.event.status`],
    ['named with its slug in upper case', (slug) => `vcp.${slug.toUpperCase()}.event.status`],
    ['that the platform reads: commands', (slug) => `vcp.${slug}.command`],
    ['that the platform reads: schedules', (slug) => `vcp.${slug}.schedule`],
    ['that the platform reads: configuration', (slug) => `vcp.${slug}.config`],
    ['named by a pattern', (slug) => `vcp.${slug}.event.*`],
    ['with a name like an event queue', (slug) => `vcp.${slug}.event.command.ack`],
  ];

  it.each(names)('refuses a queue %s with 403, whether it exists or not [C-6.2]', async (_, nameOf) => {
    const { organization, partner } = await setScene({ partner: 'connected' });
    const queue = nameOf(organization.slug);
    const expected = forbidden(partner, `queue '${queue}'`);
    expect(await partner.ask(consumption(queue))).toMatchObject(expected);
    expect(await partner.ask({ kind: 'get', queue, channel: 1, noAck: false })).toMatchObject(expected);
  });

  it('answers 404 for a partner queue that does not exist [C-6.3]', async () => {
    const { key, partner } = await setScene({ partner: 'connected' });
    expect(await partner.ask({ kind: 'get', queue: 'mine', channel: 1, noAck: true })).toMatchObject(
      refused(404, `NOT_FOUND - no queue 'mine' in vhost 'partner-${key.id}'`),
    );
  });

  it.each(['event.telemetry', 'event.alarm', 'event.status', 'event.execution', 'dead-letter'] as const)(
    'lets the partner read %s [C-6.2]',
    async (queue) => {
      const { partner } = await setScene({ partner: 'connected' });
      expect(await partner.get(queue)).toMatchObject({ delivery: null, messageCount: 0 });
      expect(await partner.consume(queue)).toMatchObject({ kind: 'ok' });
    },
  );
});
