/**
 * A client is connected once its connection.open has succeeded: from then on it counts, and its queues fill
 * [C-6.1].
 */
import { evictDurableObject } from 'cloudflare:test';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { dialAmqp, dialRows, lastUsedAtMs } from '#workerd/door.ts';
import { sendOpen } from '#workerd/link-two.ts';
import { openLink, type VhostTestLink } from '#workerd/links.ts';
import { hand } from '#workerd/outbox-events.ts';
import { Partner } from '#workerd/partner.ts';
import { createKey, createOrganization, vhostOf } from '#workerd/world.ts';
import { apiKeyPrefix } from '../../../../protocol/api-key.ts';

const ADDRESS = '192.0.2.7';

afterEach(() => {
  vi.useRealTimers();
});

/** A key whose client connected through the Worker, from a bridge that speaks version 2. */
async function dialled() {
  const organization = await createOrganization();
  const key = await createKey(organization);
  const headers = { 'sitewire-link': '2' };
  const response = await dialAmqp(organization, key, { headers, proof: { address: ADDRESS } });
  const link: VhostTestLink = openLink(response);
  const open = (vhost: string) => link.send({ kind: 'open', vhost } as never);
  return { organization, key, link, open, vhost: `partner-${key.id}` };
}

/** A key whose first client dials its object as the Worker does. */
async function atItsObject(link: number) {
  const organization = await createOrganization();
  const key = await createKey(organization);
  const siteId = crypto.randomUUID();
  const partner = await Partner.connect(organization, key, { link });
  return { organization, key, siteId, partner };
}

describe('a client on a link of version 2', () => {
  it('that is accepted and has opened nothing is not logged, and its key does not count as used [C-8.4]', async () => {
    const { organization, key, link } = await dialled();
    link.send({ kind: 'get', seq: 1, channel: 1, queue: 'mine', noAck: true });
    await link.next((frame) => frame.kind === 'refused');
    expect(await dialRows(organization.id)).toEqual([]);
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('that opens its vhost is connected: it gets one audit row, and its key counts as used [C-8.4]', async () => {
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
  ])('that names a vhost %s is refused, and audited like a refused login [C-6.3]', async (_, nameOf) => {
    const { organization, key, open } = await dialled();
    open(nameOf(key.id));
    await vi.waitFor(async () =>
      expect(await dialRows(organization.id)).toMatchObject([
        {
          event: 'partner.connection_refused',
          actor: organization.slug,
          address: ADDRESS,
          outcome: 'FAILURE',
          details: JSON.stringify({ reason: 'vhost' }),
        },
      ]),
    );
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('is audited once for its key, however often it opens [C-8.4]', async () => {
    const { organization, open, vhost, link } = await dialled();
    for (let repeat = 0; repeat < 3; repeat++) open(vhost);
    link.send({ kind: 'get', seq: 1, channel: 1, queue: 'mine', noAck: true });
    await link.next((frame) => frame.kind === 'refused');
    await vi.waitFor(async () => expect(await dialRows(organization.id)).toHaveLength(1));
  });
});

describe('the queues of a key', () => {
  it('stay empty until a client has opened its vhost, and fill from then on [C-6.1]', async () => {
    const { key, siteId, partner } = await atItsObject(2);
    await hand(key, siteId, 1, 1);
    sendOpen(partner, '/');
    expect(await partner.readyCount('event.status')).toBe(0);
    await hand(key, siteId, 2, 1);
    expect(await partner.readyCount('event.status')).toBe(0);
    sendOpen(partner);
    await partner.quiet();
    await hand(key, siteId, 3, 1);
    expect(await partner.readyCount('event.status')).toBe(1);
  });

  it('go on filling after the client has gone and the object has slept [C-6.1]', async () => {
    const { organization, key, siteId, partner } = await atItsObject(2);
    sendOpen(partner);
    await partner.quiet();
    await evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
    await hand(key, siteId, 1, 2);
    const again = await Partner.connect(organization, key, { link: 2 });
    expect(await again.readyCount('event.status')).toBe(2);
  });

  it('fill from the accept of a client whose bridge speaks version 1 [C-6.1]', async () => {
    const { key, siteId, partner } = await atItsObject(1);
    await hand(key, siteId, 1, 1);
    expect(await partner.readyCount('event.status')).toBe(1);
  });
});
