/**
 * A client is connected once its connection.open has succeeded: from then on it counts, and its queues fill
 * [C-6.1].
 */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { dialAmqp, dialRows, lastUsedAtMs } from '#workerd/door.ts';
import { dialVhost, openLink, openVhost, type VhostTestLink } from '#workerd/links.ts';
import { hand } from '#workerd/outbox-events.ts';
import { Partner } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { vhostOf } from '#workerd/world.ts';
import { apiKeyPrefix } from '../../../../protocol/api-key.ts';

const ADDRESS = '192.0.2.7';

/** A key whose client dialled through the Worker. */
async function dialled() {
  const { organization, key } = await setScene({ key: true });
  const link: VhostTestLink = openLink(await dialAmqp(organization, key, { proof: { address: ADDRESS } }));
  const open = (vhost: string) => link.send({ kind: 'open', vhost });
  return { organization, key, link, open, vhost: `partner-${key.id}` };
}

/** A key whose first client has a link and has opened nothing. */
async function atItsObject() {
  const { organization, key, siteId } = await setScene({ key: true });
  const partner = new Partner(openLink(await dialVhost(key.id)), organization, key);
  const open = (vhost = `partner-${key.id}`) => openVhost(partner.link, vhost);
  return { organization, key, siteId, partner, open };
}

describe('a client', () => {
  it('leaves no audit row if it has not opened its vhost yet, and its key does not count as used [C-8.4]', async () => {
    const { organization, key, link } = await dialled();
    link.send({ kind: 'get', seq: 1, channel: 1, queue: 'mine', noAck: true });
    await link.next((frame) => frame.kind === 'refused');
    expect(await dialRows(organization.id)).toEqual([]);
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('is connected when it opens its vhost: it gets one audit row, and its key counts as used [C-8.4]', async () => {
    const { organization, key, open, vhost } = await dialled();
    const before = Date.now();
    open(vhost);
    await vi.waitFor(async () =>
      expect(await dialRows(organization.id)).toMatchObject([
        {
          event: 'partner.connected',
          actor_type: 'API_KEY',
          actor: key.id,
          actor_name: apiKeyPrefix(key.key),
          address: ADDRESS,
          target: key.id,
          outcome: 'SUCCESS',
        },
      ]),
    );
    await vi.waitFor(async () => expect(await lastUsedAtMs(key.id)).toBeGreaterThanOrEqual(before));
  });

  it.each([
    ['/', (_id: string) => '/'],
    ['of another key', (_id: string) => `partner-${crypto.randomUUID()}`],
    ['in upper case', (id: string) => `PARTNER-${id.toUpperCase()}`],
    ['that is empty', (_id: string) => ''],
  ])('is refused if it names a vhost %s, and audited like a refused login [C-6.3]', async (_, nameOf) => {
    const { organization, key, open } = await dialled();
    open(nameOf(key.id));
    await vi.waitFor(async () =>
      expect(await dialRows(organization.id)).toMatchObject([
        {
          event: 'partner.connection_refused',
          actor: organization.slug,
          address: ADDRESS,
          outcome: 'FAILURE',
          target: key.id,
          details: expect.stringMatching(/^\{"reason":"vhost","keyPrefix":"sw_/),
        },
      ]),
    );
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('is audited once, however often it opens its vhost [C-8.4]', async () => {
    const { organization, open, vhost, link } = await dialled();
    for (let repeat = 0; repeat < 3; repeat++) open(vhost);
    link.send({ kind: 'get', seq: 1, channel: 1, queue: 'mine', noAck: true });
    await link.next((frame) => frame.kind === 'refused');
    await vi.waitFor(async () => expect(await dialRows(organization.id)).toHaveLength(1));
  });
});

describe('the queues of a key', () => {
  it('stay empty until a client has opened its vhost, and fill from then on [C-6.1]', async () => {
    const { key, siteId, partner, open } = await atItsObject();
    await hand(key, siteId, 1, 1);
    await open('/');
    expect(await partner.readyCount('event.status')).toBe(0);
    await hand(key, siteId, 2, 1);
    expect(await partner.readyCount('event.status')).toBe(0);
    await open();
    await hand(key, siteId, 3, 1);
    expect(await partner.readyCount('event.status')).toBe(1);
  });

  it('still fill after the client has disconnected and the object has slept [C-6.1]', async () => {
    const { organization, key, siteId, open } = await atItsObject();
    await open();
    await evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
    await hand(key, siteId, 1, 2);
    const again = await Partner.connect(organization, key);
    expect(await again.readyCount('event.status')).toBe(2);
  });
});
