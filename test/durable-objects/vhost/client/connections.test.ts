/**
 * The connections of a key: which dials are accepted, how many may be open, and which connections the object
 * closes.
 */
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { dialVhost } from '#workerd/links.ts';
import { hand, numberOf } from '#workerd/outbox-events.ts';
import { breakWrites, consumption, Partner, vhostRows } from '#workerd/partner.ts';
import { type PartnerScene, setScene } from '#workerd/scene.ts';
import { createKey, vhostOf } from '#workerd/world.ts';
import { DIAL_HEADER } from '../../../../durable-objects/dial.ts';
import { MAX_BATCH_FRAMES } from '../../../../protocol/link/batch.ts';
import { CLOSE_CODES } from '../../../../protocol/link/live.ts';
import { VHOST_HEADER } from '../../../../protocol/link/proof.ts';

/** Further links of a key. */
async function connectMany({ connect }: PartnerScene, count: number): Promise<Partner[]> {
  const partners: Partner[] = [];
  for (let index = 0; index < count; index++) partners.push(await connect());
  return partners;
}

/** A key with two links. */
async function openTwo() {
  const scene = await setScene({ partner: 'connected' });
  return { ...scene, other: await scene.connect() };
}

describe('a dial', () => {
  it('is answered with a header that names the vhost of its key', async () => {
    const { key } = await setScene({ key: true });
    const answer = await dialVhost(key.id);
    expect(answer.status).toBe(101);
    expect(answer.headers.get(VHOST_HEADER)).toBe(`partner-${key.id}`);
    answer.webSocket?.accept();
  });

  it('is answered as an unknown path if its connection id was used before (rule 1)', async () => {
    const { organization, key } = await setScene({ key: true });
    const connection = crypto.randomUUID();
    const partner = await Partner.connect(organization, key, { connection });
    const dialAgain = async () => (await dialVhost(key.id, { connection })).json();
    expect(await dialAgain()).toMatchObject({ statusCode: 404, code: 'NOT_FOUND' });
    partner.link.socket.close();
    expect(await dialAgain()).toMatchObject({ statusCode: 404 });
    await evictDurableObject(vhostOf(key.id));
    expect(await dialAgain()).toMatchObject({ statusCode: 404 });
  });

  it('is answered with 404 if it has no header of the Worker, or is no upgrade (rule 1)', async () => {
    const { key } = await setScene({ key: true });
    const dial = JSON.stringify({ keyId: key.id, connection: 'c', bridge: 'b', boot: 'b', address: '::1' });
    const plain = await vhostOf(key.id).fetch('https://vhost/link', { headers: { [DIAL_HEADER]: dial } });
    const bare = await vhostOf(key.id).fetch('https://vhost/link', { headers: { upgrade: 'websocket' } });
    expect([plain.status, bare.status]).toEqual([404, 404]);
  });

  it('to a vhost that was never opened is refused with 401', async () => {
    const answer = await dialVhost(crypto.randomUUID());
    expect(answer.status).toBe(401);
    expect(await answer.json()).toMatchObject({ code: 'UNAUTHORIZED' });
  });
});

describe('the eleventh connection of a key', () => {
  it('is refused with 409 until one of the ten ends; another key is not affected [C-6.3]', async () => {
    const { scene, organization, key, partner, connect } = await setScene({ partner: 'connected' });
    const partners = [partner, ...(await connectMany(scene, 9))];
    const refusal = async () => (await dialVhost(key.id)).json();
    expect(await refusal()).toMatchObject({ statusCode: 409, code: 'CONFLICT' });
    const elsewhere = await Partner.connect(organization, await createKey(organization));
    await elsewhere.quiet();
    await evictDurableObject(vhostOf(key.id));
    expect(await refusal()).toMatchObject({ statusCode: 409 });
    partners[3]?.link.socket.close();
    await partners[0]?.quiet();
    await (await connect()).quiet();
    for (const partner of partners.filter((_, index) => index !== 3)) {
      expect(partner.link.closed).toBeUndefined();
    }
  });

  it('is accepted when the ten belong to an older boot of its bridge (rule 8)', async () => {
    const scene = await setScene({ partner: 'connected' });
    await connectMany(scene, 9);
    await (await scene.connect({ boot: 'boot-2' })).quiet();
  });

  it('is accepted after the alarm has closed connections that were silent for two minutes (rule 2)', async () => {
    const { scene, key, partner } = await setScene({ partner: 'connected' });
    const partners = [partner, ...(await connectMany(scene, 9))];
    vi.setSystemTime(Date.now() + 100_000);
    await partners[0]?.quiet();
    vi.setSystemTime(Date.now() + 21_000);
    await runDurableObjectAlarm(vhostOf(key.id));
    for (const partner of partners.slice(1)) {
      expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    }
    expect(partners[0]?.link.closed).toBeUndefined();
    await connectMany(scene, 9);
    expect((await dialVhost(key.id)).status).toBe(409);
  });

  it('is accepted as soon as one of the ten has been silent for a minute (rule 2)', async () => {
    const scene = await setScene({ partner: 'connected' });
    await connectMany(scene, 9);
    vi.setSystemTime(Date.now() + 61_000);
    expect((await dialVhost(scene.key.id)).status).toBe(101);
  });
});

describe('a silent connection', () => {
  it('gets no message after a minute of silence: the other connection gets them (rule 2)', async () => {
    const { key, siteId, partner: silent, other: live } = await openTwo();
    await silent.consume('event.status');
    vi.setSystemTime(Date.now() + 61_000);
    await live.consume('event.status');
    await hand(key, siteId, 1, 4);
    await live.delivered(4);
    expect(live.deliveries().map(numberOf)).toEqual([1, 2, 3, 4]);
    expect(silent.deliveries()).toEqual([]);
  });

  it('is closed after two minutes, and its leased messages go to another connection (rule 8)', async () => {
    const { key, siteId, partner: silent, other: live } = await openTwo();
    await silent.consume('event.status');
    await hand(key, siteId, 1, 2);
    await silent.delivered(2);
    vi.setSystemTime(Date.now() + 121_000);
    await live.consume('event.status');
    await runDurableObjectAlarm(vhostOf(key.id));
    const taken = await live.delivered(2);
    expect(taken.map(({ redelivered }) => redelivered)).toEqual([true, true]);
  });

  it('is not one whose client pings, even while the object sleeps: the pinging client gets the messages (rule 2)', async () => {
    // The runtime stamps pings with the true time: the clients connect a minute before it.
    vi.setSystemTime(Date.now() - 61_000);
    const { key, siteId, partner: silent, other: pinging } = await openTwo();
    await silent.consume('event.status');
    await pinging.consume('event.status');
    await evictDurableObject(vhostOf(key.id));
    vi.useRealTimers();
    const pong = new Promise((resolve) => {
      pinging.link.socket.addEventListener('message', (event) => resolve(event.data), { once: true });
    });
    pinging.link.socket.send('ping');
    expect(await pong).toBe('pong');
    await hand(key, siteId, 1, 2);
    await pinging.delivered(2);
    expect(pinging.deliveries().map(numberOf)).toEqual([1, 2]);
    expect(silent.deliveries()).toEqual([]);
  });
});

describe('a link that breaks the rules', () => {
  const declare = { kind: 'declare', seq: 1, queue: 'q', passive: true, durable: true, exclusive: false };
  const broken: [string, string | ArrayBuffer][] = [
    ['with invalid JSON', 'hello'],
    ['with JSON that is not a list', '{"kind":"qos","channel":1,"prefetch":1}'],
    ['with a message of bytes', new TextEncoder().encode('[]').buffer as ArrayBuffer],
    ['without a required field', JSON.stringify([declare])],
    ['with a negative sequence', '[{"kind":"recover","seq":-1,"channel":1}]'],
    ['with channel 0', '[{"kind":"recover","seq":1,"channel":0}]'],
    ['with a lease that is not a number', '[{"kind":"settle","outcome":"ack","leases":["1"]}]'],
    [
      'with too many frames',
      JSON.stringify(Array(MAX_BATCH_FRAMES + 1).fill({ kind: 'credit', drainedBytes: 0 })),
    ],
    ['with a message that is too long', `["${'x'.repeat(2 * 1024 * 1024)}"]`],
    ['with nesting without end', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
  ];

  it.each(broken)(
    '%s is closed, and no other link; its leases return to the queue (rule 1)',
    async (_, message) => {
      const { key, siteId, partner, other } = await openTwo();
      await partner.consume('event.status');
      await hand(key, siteId, 1, 2);
      await partner.delivered(2);
      partner.link.socket.send(message);
      expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.protocolError });
      expect(await other.readyCount('event.status')).toBe(2);
    },
  );

  it.each([
    ['a frame without a kind', '[{}]'],
    ['an unknown frame', '[{"kind":"reboot"}]'],
  ])('is closed with a protocol error, too, for %s (rule 1)', async (_, message) => {
    const { partner, other } = await openTwo();
    partner.link.socket.send(message);
    await other.quiet();
    await other.quiet();
    expect(partner.link.closed).toMatchObject({ code: CLOSE_CODES.protocolError });
  });

  it('has no frame of a batch handled if one of them is malformed (rule 1)', async () => {
    const { partner, other } = await openTwo();
    const publish = { ...partner.command('x', 'mode', {}), body: 'not JSON', seq: 1 };
    partner.link.socket.send(JSON.stringify([publish, { kind: 'qos' }]));
    await partner.link.untilClosed();
    expect(await other.readyCount('dead-letter')).toBe(0);
  });

  it('is the only one closed for a frame that cannot be handled, and the counts of the queues stay correct (rule 3)', async () => {
    const { key, siteId, partner, other } = await openTwo();
    await hand(key, siteId, 1, 3);
    await partner.consume('event.status', { prefetch: 2 });
    const [first] = await partner.delivered(2);
    await breakWrites(key, 'consumer', { when: `NEW.tag = 'poison'` });
    partner.link.send(
      { ...partner.command('x', 'mode', {}), body: 'not JSON', seq: 1 },
      { kind: 'settle', outcome: 'ack', leases: [first?.lease ?? 0] },
      { ...consumption(partner.queueName('event.alarm'), { tag: 'poison' }), seq: 2 },
    );
    expect(await partner.link.untilClosed()).toMatchObject({ code: CLOSE_CODES.protocolError });
    const ready = await other.readyCount('event.status');
    const dead = await other.readyCount('dead-letter');
    await other.consume('event.status', { noAck: true });
    await other.consume('dead-letter', { noAck: true });
    await other.delivered(ready + dead);
    await other.quiet();
    expect(other.deliveries()).toHaveLength(ready + dead);
    expect(other.deliveries('event.status').map(numberOf)).toEqual(ready === 2 ? [2, 3] : [1, 2, 3]);
    expect(await vhostRows(key, 'SELECT queue FROM chunk')).toEqual([]);
  });
});
