/**
 * Only a client's own requeues count towards the limit of twenty deliveries; ends of connections do not
 * [C-6.4].
 */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { markedNumbers, numberOf } from '#workerd/outbox-events.ts';
import { setScene } from '#workerd/scene.ts';
import { vhostOf } from '#workerd/world.ts';

const LIMIT = 20;
/** More than twenty times. */
const OFTEN = 25;

const QUEUES = [
  ['event.status', 'ack'],
  ['event.telemetry', 'telemetry'],
] as const;

describe.each(QUEUES)('a message of %s', (queue, kind) => {
  it('is delivered again, however many clients disconnect without settling it [C-6.4]', async () => {
    const { partner, connect } = await setScene({ partner: 'connected', events: { count: 1, kind } });
    for (let life = 0; life < OFTEN; life++) {
      const client = await connect();
      await client.consume(queue);
      const [delivery] = await client.delivered(1);
      expect(delivery && numberOf(delivery)).toBe(1);
      expect(delivery?.redelivered).toBe(life > 0);
      client.link.socket.close(1000, 'gone');
      await client.link.untilClosed();
    }
    expect(await partner.readyCount('dead-letter')).toBe(0);
    expect(await partner.readyCount(queue)).toBe(1);
  });

  it('is delivered again after its channel closed, however often [C-6.4]', async () => {
    const { partner } = await setScene({ partner: 'connected', events: { count: 1, kind } });
    for (let channel = 1; channel <= OFTEN; channel++) {
      await partner.consume(queue, { channel, tag: `t${channel}` });
      await partner.delivered(channel);
      partner.link.send({ kind: 'close-channel', channel });
    }
    expect(await partner.readyCount('dead-letter')).toBe(0);
    expect(await partner.readyCount(queue)).toBe(1);
    expect(markedNumbers(partner)).toEqual(['1', ...Array(OFTEN - 1).fill('1*')]);
  });

  it('becomes a dead letter after twenty requeues, each on a connection that is closed afterwards [C-6.4]', async () => {
    const { partner, connect } = await setScene({ partner: 'connected', events: { count: 1, kind } });
    for (let count = 1; count <= LIMIT; count++) {
      const client = await connect();
      await client.consume(queue, { prefetch: 1 });
      const [delivery] = await client.delivered(1);
      if (count < LIMIT) client.settle('requeue', [delivery ?? { lease: 0 }]);
      else {
        // The last delivery: one more requeue exceeds the limit.
        await client.ask({ kind: 'cancel', channel: 1, tag: queue });
        client.settle('requeue', [delivery ?? { lease: 0 }]);
      }
      await client.quiet();
      client.link.socket.close(1000, 'gone');
      await client.link.untilClosed();
    }
    await partner.consume(queue);
    await partner.quiet();
    expect(partner.deliveries()).toEqual([]);
    expect(await partner.readyCount('dead-letter')).toBe(1);
  });

  it('keeps its requeue count while the object sleeps [C-6.4]', async () => {
    const { key, partner } = await setScene({ held: { count: 2, queue, prefetch: 1 } });
    for (let count = 1; count <= LIMIT; count++) {
      partner.settle('requeue', (await partner.delivered(count)).slice(-1));
      if (count === LIMIT / 2) {
        await partner.quiet();
        await evictDurableObject(vhostOf(key.id));
      }
    }
    await partner.delivered(LIMIT + 1);
    expect(markedNumbers(partner)).toEqual(['1', ...Array(LIMIT - 1).fill('1*'), '2']);
    expect(await partner.readyCount('dead-letter')).toBe(1);
  });
});
