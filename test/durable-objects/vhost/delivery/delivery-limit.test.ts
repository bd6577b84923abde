/** The twenty deliveries of a message are those that a client put back itself, not ends of connections [C-6.4]. */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { hand, numberOf, told } from '../../../support/workerd/outbox-events.ts';
import { openPartner } from '../../../support/workerd/partner-scenes.ts';
import { vhostOf } from '../../../support/workerd/world.ts';

const LIMIT = 20;
/** More often than that. */
const OFTEN = 25;

const QUEUES = [
  ['event.status', 'ack'],
  ['event.telemetry', 'telemetry'],
] as const;

describe.each(QUEUES)('a message of %s', (queue, kind) => {
  it('is delivered again and again to clients that go without settling it [C-6.4]', async () => {
    const { key, partner, siteId, connect } = await openPartner();
    await hand(key, siteId, 1, 1, { kind });
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

  it('is delivered again when its channel was closed, however often [C-6.4]', async () => {
    const { key, partner, siteId } = await openPartner();
    await hand(key, siteId, 1, 1, { kind });
    for (let channel = 1; channel <= OFTEN; channel++) {
      await partner.consume(queue, { channel, tag: `t${channel}` });
      await partner.delivered(channel);
      partner.link.send({ kind: 'close-channel', channel });
    }
    expect(await partner.readyCount('dead-letter')).toBe(0);
    expect(await partner.readyCount(queue)).toBe(1);
    expect(told(partner)).toEqual(['1', ...Array(OFTEN - 1).fill('1*')]);
  });

  it('is a dead letter when a client has put it back twenty times, whatever lay between [C-6.4]', async () => {
    const { key, partner, siteId, connect } = await openPartner();
    await hand(key, siteId, 1, 1, { kind });
    for (let count = 1; count <= LIMIT; count++) {
      const client = await connect();
      await client.consume(queue, { prefetch: 1 });
      const [delivery] = await client.delivered(1);
      if (count < LIMIT) client.settle('requeue', [delivery ?? { lease: 0 }]);
      else {
        // Its last: put back once more, it is over.
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

  it('still knows after a sleep how often it was put back [C-6.4]', async () => {
    const { key, partner, siteId } = await openPartner();
    await partner.consume(queue, { prefetch: 1 });
    await hand(key, siteId, 1, 2, { kind });
    for (let count = 1; count <= LIMIT; count++) {
      partner.settle('requeue', (await partner.delivered(count)).slice(-1));
      if (count === LIMIT / 2) {
        await partner.quiet();
        await evictDurableObject(vhostOf(key.id));
      }
    }
    await partner.delivered(LIMIT + 1);
    expect(told(partner)).toEqual(['1', ...Array(LIMIT - 1).fill('1*'), '2']);
    expect(await partner.readyCount('dead-letter')).toBe(1);
  });
});
