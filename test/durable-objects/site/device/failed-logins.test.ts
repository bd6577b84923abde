/**
 * Which failed logins count toward a suspension, whatever other logins were refused between them [C-3.11].
 */
import { type SiteScene, setScene } from '#workerd/scene.ts';
import { MINUTE, START_MS, setClock } from '#workerd/site-clock.ts';
import { newMove, statusOfDial, whole } from '#workerd/site-move.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, siteOf } from '#workerd/world.ts';

const FAILED = 'SELECT count(*) FROM failed_login';

type Scene = Pick<SiteScene, 'organization' | 'gateway' | 'siteId'>;

async function refuse({ organization, gateway, siteId }: Scene, count: number, options = {}): Promise<void> {
  const site = siteOf(siteId);
  const refused = { address: '192.0.2.7', counts: true, organizationId: organization.id, ...options };
  const reasons = Array.from({ length: count }, (_, at) => `reason ${at}`);
  await Promise.all(reasons.map((reason) => site.noteRefusedLogin(gateway.id, { reason, ...refused })));
}

async function statusOf({ siteId, gateway }: Scene): Promise<string> {
  const isActive = `SELECT count(*) FROM device WHERE id = '${gateway.id}' AND status = 'ACTIVE'`;
  return (await numberOf(siteId, isActive)) === 1 ? 'ACTIVE' : 'SUSPENDED';
}

describe('failed logins', () => {
  it('the tenth counted failed login within five minutes suspends a device, even after a hundred uncounted ones and an eviction [C-3.11]', async () => {
    const scene = await setScene({ plant: true });
    await refuse(scene, 9);
    await refuse(scene, 100, { counts: false, address: '192.0.2.9' });
    await evictSite(scene.siteId);
    expect(await statusOf(scene)).toBe('ACTIVE');
    const { connects } = await siteOf(scene.siteId).diagnostics(scene.gateway.id);
    expect(new Set(connects.map(({ address }) => address))).toEqual(new Set(['192.0.2.9']));
    await refuse(scene, 1, { address: '192.0.2.8' });
    expect(await statusOf(scene)).toBe('SUSPENDED');
    expect(await statusOfDial(scene.siteId, scene.gateway.id)).toBe(401);
    const reason = `SELECT count(*) FROM device WHERE suspend_reason LIKE
      '10 failed logins%192.0.2.7%192.0.2.8%' AND suspend_reason NOT LIKE '%192.0.2.9%'`;
    expect(await numberOf(scene.siteId, reason)).toBe(1);
  });

  it('ten counted failed logins suspend a device, although uncounted ones come between them', async () => {
    const scene = await setScene({ plant: true });
    for (let count = 0; count < 9; count++) {
      await refuse(scene, 1);
      await refuse(scene, 15, { counts: false });
    }
    expect(await statusOf(scene)).toBe('ACTIVE');
    await refuse(scene, 1);
    expect(await statusOf(scene)).toBe('SUSPENDED');
  });

  it('do not count for another device', async () => {
    const scene = await setScene({ plant: true });
    const other = await createDevice(scene.organization, scene.siteId, 'SENSOR');
    await refuse(scene, 9);
    await refuse({ ...scene, gateway: other }, 9);
    for (const gateway of [scene.gateway, other])
      expect(await statusOf({ ...scene, gateway })).toBe('ACTIVE');
    await refuse(scene, 1);
    expect(await statusOf({ ...scene, gateway: other })).toBe('ACTIVE');
  });

  it('failed logins that are five minutes old do not count, and at most ten rows are kept [C-3.11]', async () => {
    const scene = await setScene({ plant: true });
    for (let round = 0; round < 5; round++) {
      setClock(START_MS + round * 5 * MINUTE);
      await refuse(scene, 9);
      expect(await statusOf(scene)).toBe('ACTIVE');
    }
    expect(await numberOf(scene.siteId, FAILED)).toBe(10);
    await refuse(scene, 1);
    expect(await statusOf(scene)).toBe('SUSPENDED');
  });
});

describe('a reactivation', () => {
  it.each(['in the same moment', 'and an eviction'])(
    '(%s) clears all failed logins, also those during the suspension: only ten more suspend the device again [C-3.3], [C-3.11]',
    async (how) => {
      const scene = await setScene({ plant: true });
      const site = siteOf(scene.siteId);
      for (let round = 0; round < 3; round++) {
        await refuse(scene, 10);
        expect(await statusOf(scene)).toBe('SUSPENDED');
        await refuse(scene, 10);
        expect(await numberOf(scene.siteId, FAILED)).toBe(10);
        await site.setDeviceStatus(scene.gateway.id, 'ACTIVE');
        expect(await numberOf(scene.siteId, FAILED)).toBe(0);
        if (how === 'and an eviction') await evictSite(scene.siteId);
        await refuse(scene, 9);
        expect(await statusOf(scene)).toBe('ACTIVE');
        await refuse(scene, 1);
        expect(await statusOf(scene)).toBe('SUSPENDED');
        await site.setDeviceStatus(scene.gateway.id, 'ACTIVE');
      }
    },
  );

  it("clears the failed logins from before an admin's suspension too", async () => {
    const scene = await setScene({ plant: true });
    await refuse(scene, 9);
    await siteOf(scene.siteId).setDeviceStatus(scene.gateway.id, 'SUSPENDED');
    expect(await numberOf(scene.siteId, FAILED)).toBe(9);
    await siteOf(scene.siteId).setDeviceStatus(scene.gateway.id, 'ACTIVE');
    expect(await numberOf(scene.siteId, FAILED)).toBe(0);
    await refuse(scene, 9);
    expect(await statusOf(scene)).toBe('ACTIVE');
    await refuse(scene, 1);
    expect(await statusOf(scene)).toBe('SUSPENDED');
  });

  it('after a move clears the failed logins that moved with the device [C-3.1]', async () => {
    const { organization, gateway, fromId, toId, move } = await newMove();
    await refuse({ organization, gateway, siteId: fromId }, 9);
    await whole(move);
    const there = { organization, gateway, siteId: toId };
    expect([await numberOf(fromId, FAILED), await numberOf(toId, FAILED)]).toEqual([0, 9]);
    await refuse(there, 100, { counts: false });
    await refuse(there, 1);
    expect(await statusOf(there)).toBe('SUSPENDED');
    expect(await numberOf(toId, FAILED)).toBe(10);
    await siteOf(toId).setDeviceStatus(gateway.id, 'ACTIVE');
    expect(await numberOf(toId, FAILED)).toBe(0);
    await refuse(there, 9);
    expect(await statusOf(there)).toBe('ACTIVE');
  });
});
