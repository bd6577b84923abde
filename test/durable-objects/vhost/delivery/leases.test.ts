/** Leases when their link is lost, their bridge reboots, or another connection settles them. */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { hand, markedNumbers, numberOf, numbers, range } from '#workerd/outbox-events.ts';
import { breakWrites, commandLog, consumption, eventOf } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { vhostOf } from '#workerd/world.ts';
import { CLOSE_CODES } from '../../../../protocol/link/live.ts';

describe('a link that is lost', () => {
  it('while deliveries are on their way loses no message: each is delivered again, as redelivered [C-6.4]', async () => {
    const { key, partner, siteId, connect } = await setScene({ consumes: 'event.status' });
    await hand(key, siteId, 1, 3);
    partner.link.socket.close();
    const again = await connect();
    await again.consume('event.status');
    await again.delivered(3);
    expect(markedNumbers(again)).toEqual(['1*', '2*', '3*']);
  });

  it('has its 1000 unacknowledged messages delivered again in order, as redelivered, before new ones [C-6.4]', async () => {
    const { key, partner, siteId, connect } = await setScene({ consumes: 'event.status' });
    for (let from = 1; from <= 1_000; from += 250) await hand(key, siteId, from, 250);
    await partner.delivered(1_000);
    partner.link.socket.close();
    await hand(key, siteId, 1_001, 2);
    const again = await connect();
    await again.consume('event.status');
    const all = await again.delivered(1_002);
    expect(all.map(numberOf)).toEqual(range(1, 1_002));
    expect(all.every(({ redelivered }, index) => redelivered === index < 1_000)).toBe(true);
  });

  it('has its leased messages delivered to consumers that are already connected [C-6.4]', async () => {
    const { partner, connect } = await setScene({ held: 3 });
    const other = await connect();
    await other.consume('event.status');
    partner.link.socket.close();
    await other.delivered(3);
    expect(markedNumbers(other)).toEqual(['1*', '2*', '3*']);
  });

  it('while a command is in progress loses nothing: the next client gets its acknowledgement [C-6.4]', async () => {
    const { plant, partner, connect } = await setScene({ plant: true, partner: 'connected' });
    partner.link.send({ ...partner.command(plant.id, 'mode', { mode: 'STANDARD' }), seq: 1 });
    partner.link.socket.close();
    const again = await connect();
    await again.consume('event.status');
    const [ack] = await again.delivered(1);
    expect(ack && eventOf(ack).payload).toMatchObject({ commandType: 'MODE_CHANGE', status: 'QUEUED' });
    expect((await commandLog(plant.id)).total).toBe(1);
  });
});

describe('a lease', () => {
  it('cannot be settled on the next connection if its own has closed: ack, requeue and discard have no effect [C-6.4]', async () => {
    const { partner, connect, held: stale } = await setScene({ held: 3 });
    partner.link.socket.close();
    const again = await connect();
    await again.consume('event.status');
    const fresh = await again.delivered(3);
    expect(fresh.map(({ lease }) => lease)).not.toEqual(stale.map(({ lease }) => lease));
    for (const outcome of ['ack', 'requeue', 'discard'] as const) again.settle(outcome, stale);
    await again.quiet();
    expect(markedNumbers(again)).toEqual(['1*', '2*', '3*']);
    again.link.socket.close();
    const third = await connect();
    expect(await third.readyCount('event.status')).toBe(3);
    expect(await third.readyCount('dead-letter')).toBe(0);
  });

  it('cannot be settled by another connection: ack, requeue and discard have no effect [C-6.4]', async () => {
    const { partner, connect, held } = await setScene({ held: 3 });
    const other = await connect();
    for (const outcome of ['discard', 'requeue', 'ack'] as const) other.settle(outcome, held);
    await other.quiet();
    expect(await other.readyCount('dead-letter')).toBe(0);
    expect(await other.readyCount('event.status')).toBe(0);
    partner.settle('requeue', held.slice(0, 1));
    await partner.delivered(4);
    expect(markedNumbers(partner)).toEqual(['1', '2', '3', '1*']);
  });

  it('has a number that is never reused, over sleeps and connections', async () => {
    const { key, partner, connect, held } = await setScene({ held: 50 });
    const leases = held.map(({ lease }) => lease);
    partner.link.socket.close();
    for (let life = 0; life < 3; life++) {
      const next = await connect();
      await next.consume('event.status');
      leases.push(...(await next.delivered(50)).map(({ lease }) => lease));
      await evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
    }
    expect(new Set(leases).size).toBe(200);
  });
});

describe('a bridge that dials again', () => {
  it('under a new boot has the messages leased under its old boot delivered again, and no others (rule 8)', async () => {
    const { key, partner, siteId, connect } = await setScene({ partner: 'connected' });
    const elsewhere = await connect({ bridge: 'bridge-2', boot: 'boot-1' });
    await partner.consume('event.status', { prefetch: 2 });
    await hand(key, siteId, 1, 2);
    await partner.delivered(2);
    await elsewhere.consume('event.status', { prefetch: 1 });
    await hand(key, siteId, 3, 1);
    await elsewhere.delivered(1);
    const again = await connect({ bridge: 'bridge-1', boot: 'boot-2' });
    await again.consume('event.status');
    await again.delivered(2);
    await again.quiet();
    expect(markedNumbers(again)).toEqual(['1*', '2*']);
    expect(markedNumbers(elsewhere)).toEqual(['3']);
  });

  it('under a new boot has the sockets of its old boot closed, and those of no other bridge (rule 8)', async () => {
    const { partner, connect } = await setScene({ partner: 'connected' });
    const elsewhere = await connect({ bridge: 'bridge-2', boot: 'boot-1' });
    await connect({ boot: 'boot-2' });
    expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    await elsewhere.quiet();
    expect(elsewhere.link.closed).toBeUndefined();
  });

  it('under the same boot frees no lease of its other connections (rule 8)', async () => {
    const { connect } = await setScene({ held: 1 });
    const second = await connect();
    expect(await second.readyCount('event.status')).toBe(0);
  });
});

describe('a frame that cannot be handled', () => {
  it('closes only the connection that sent it; what another client just acknowledged is not delivered again (rule 3)', async () => {
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const { key, partner, siteId, connect, held } = await setScene({ held: { count: 1, prefetch: 1 } });
    const other = await connect();
    const mend = await breakWrites(key, 'consumer');
    partner.settle('ack', held);
    other.link.send({ ...consumption(other.queueName('event.alarm')), seq: 1 });
    expect(await other.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.protocolError });
    await mend();
    await hand(key, siteId, 2, 1);
    await partner.delivered(2);
    expect(numbers(partner)).toEqual([1, 2]);
  });
});
