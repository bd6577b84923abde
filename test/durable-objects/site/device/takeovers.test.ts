/**
 * Two programs with the identity of one device: each login takes the place of the other's session [C-3.6]. The
 * diagnostics say so, and from which addresses; logins that only follow a lost connection are not reported.
 */
import type { DeviceTestLink } from '#workerd/links.ts';
import { type SiteScene, setScene } from '#workerd/scene.ts';
import { MINUTE, passUntilSent, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectTo, sendAck, sendTelemetry } from '#workerd/site-devices.ts';
import { newMove, whole } from '#workerd/site-move.ts';
import { evictSite, openSessions } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, siteOf } from '#workerd/world.ts';
import { CLOSE_CODES } from '../../../../protocol/link/live.ts';

const [ONE, OTHER] = ['192.0.2.7', '198.51.100.9'];
/** What the hint says, whatever else is in it. */
const TAKES_PLACE = /take each other's place/;

/** The hints of a device that are about its sessions. */
async function hintsOf({ site }: Pick<SiteScene, 'site'>, deviceId: string): Promise<string[]> {
  return (await site.diagnostics(deviceId)).hints.filter((hint) => TAKES_PLACE.test(hint));
}

/** Lets two programs log in by turns, each a second after the other, while the session of the other is open. */
async function fight(
  { plant }: Pick<SiteScene, 'plant'>,
  deviceId: string,
  logins: number,
  { addresses = [ONE, OTHER], stepMs = SECOND } = {},
): Promise<DeviceTestLink | undefined> {
  let newest: DeviceTestLink | undefined;
  for (let login = 0; login < logins; login++) {
    const displaced = newest;
    setClock(Date.now() + stepMs);
    newest = await connectTo(plant.id, deviceId, { address: addresses[login % addresses.length] ?? ONE });
    if (displaced) expect((await displaced.untilClosed()).code).toBe(CLOSE_CODES.takenOver);
  }
  return newest;
}

describe('two programs with the identity of one device', () => {
  it('are in the hints from the third take-over on, with both addresses [C-3.6], [C-3.8]', async () => {
    const { scene, site, gateway } = await setScene({ plant: true });
    // The first login takes no place: three logins are two take-overs.
    await fight(scene, gateway.id, 3);
    expect(await hintsOf(scene, gateway.id)).toEqual([]);
    await fight(scene, gateway.id, 1, { addresses: [OTHER] });
    const [hint, ...more] = await hintsOf(scene, gateway.id);
    expect(more).toEqual([]);
    for (const said of ['3 logins', '10 minutes', ONE, OTHER]) expect(hint).toContain(said);
    expect(hint?.split(ONE)).toHaveLength(2);
    // The list of logins stays as it was.
    const { connects } = await site.diagnostics(gateway.id);
    expect(connects.map(({ outcome }) => outcome)).toEqual(Array(4).fill('ACCEPTED'));
  });

  it('are in the hints when both have one address, as behind one router', async () => {
    const { scene, gateway } = await setScene({ plant: true });
    await fight(scene, gateway.id, 8, { addresses: [ONE] });
    const [hint] = await hintsOf(scene, gateway.id);
    expect(hint).toContain(`from ${ONE}`);
    expect(hint).toContain('7 logins');
  });

  it('are in the hints when both send telemetry between the logins', async () => {
    const { scene, gateway, plant } = await setScene({ plant: true });
    for (let login = 0; login < 5; login++) {
      setClock(START_MS + login * 16 * SECOND);
      const link = await connectTo(plant.id, gateway.id, { address: login % 2 ? ONE : OTHER });
      expect(await sendTelemetry(link, gateway, { gridPowerKw: login })).toBe(true);
    }
    expect(await hintsOf(scene, gateway.id)).toEqual([expect.stringContaining('4 logins')]);
  });

  it('stay in the hints through an eviction, a hundred refused logins and a hundred take-overs', async () => {
    const { scene, site, gateway, plant, organization } = await setScene({ plant: true });
    await fight(scene, gateway.id, 5);
    await evictSite(plant.id);
    const [before] = await hintsOf(scene, gateway.id);
    expect(before).toContain('4 logins');
    for (let count = 0; count < 100; count++) {
      const refused = { address: `203.0.113.${count}`, reason: `${count}`, counts: false };
      await site.noteRefusedLogin(gateway.id, { ...refused, organizationId: organization.id });
    }
    expect(await hintsOf(scene, gateway.id)).toEqual([before]);
    await fight(scene, gateway.id, 130);
    const [after] = await hintsOf(scene, gateway.id);
    expect(after).toMatch(TAKES_PLACE);
    expect(after?.length).toBeLessThan(500);
  });

  it('leave the hints ten minutes after the last take-over', async () => {
    const { scene, gateway } = await setScene({ plant: true });
    await fight(scene, gateway.id, 6);
    const lastMs = Date.now();
    setClock(lastMs + 9 * MINUTE);
    expect(await hintsOf(scene, gateway.id)).toHaveLength(1);
    setClock(lastMs + 10 * MINUTE + 1);
    expect(await hintsOf(scene, gateway.id)).toEqual([]);
  });

  it('name at most a few of many addresses, so that the hint stays readable', async () => {
    const { scene, gateway } = await setScene({ plant: true });
    const addresses = Array.from({ length: 60 }, (_none, index) => `2001:db8:${index}::1`);
    await fight(scene, gateway.id, 60, { addresses });
    const [hint] = await hintsOf(scene, gateway.id);
    // The newest address is among them.
    expect(hint).toContain('2001:db8:59::1');
    expect(hint?.length).toBeLessThan(500);
  });

  it('are no hint of another device of the site', async () => {
    const { scene, gateway, organization, plant } = await setScene({ plant: true });
    const neighbour = await createDevice(organization, plant.id, 'SENSOR');
    await connectTo(plant.id, neighbour.id);
    await fight(scene, gateway.id, 6);
    expect(await hintsOf(scene, neighbour.id)).toEqual([]);
    expect(await hintsOf(scene, gateway.id)).toHaveLength(1);
  });

  it('are a hint in the site that the device moves to [C-3.1]', async () => {
    const { gateway, fromId, toId, move } = await newMove();
    await fight({ plant: { id: fromId } as SiteScene['plant'] }, gateway.id, 5);
    await whole(move);
    expect(await hintsOf({ site: siteOf(toId) }, gateway.id)).toEqual([expect.stringContaining('4 logins')]);
  });
});

describe('a login that takes the place of no live session', () => {
  it('gives no hint after the device closed its connection', async () => {
    const { scene, gateway, plant } = await setScene({ plant: true });
    for (let login = 0; login < 8; login++) {
      const link = await connectTo(plant.id, gateway.id, { address: login % 2 ? ONE : OTHER });
      link.socket.close(1000, 'disconnected');
      await link.untilClosed();
    }
    expect(await hintsOf(scene, gateway.id)).toEqual([]);
  });

  it('gives no hint after its bridge restarted (rule 8)', async () => {
    const { scene, gateway, plant } = await setScene({ plant: true });
    for (let boot = 0; boot < 8; boot++) await connectTo(plant.id, gateway.id, { boot: `boot-${boot}` });
    expect(await hintsOf(scene, gateway.id)).toEqual([]);
  });

  it('gives no hint after the device lost its connection without notice: its client was silent [C-3.10]', async () => {
    const { scene, gateway, plant } = await setScene({ plant: true });
    for (let login = 0; login < 5; login++) {
      const link = await connectTo(plant.id, gateway.id, { address: ONE });
      // The bridge says that nothing came from the client for 90 s [C-3.10].
      setClock(Date.now() + 91 * SECOND);
      link.send({ kind: 'quiet', quiet: true });
      await sendAck(link, gateway, 'none', 'RECEIVED');
    }
    expect(await hintsOf(scene, gateway.id)).toEqual([]);
  });

  it('gives no hint when the device logs in again only every five minutes', async () => {
    const { scene, gateway } = await setScene({ plant: true });
    await fight(scene, gateway.id, 10, { stepMs: 5 * MINUTE + SECOND });
    expect(await hintsOf(scene, gateway.id)).toEqual([]);
  });

  it('gives no hint after a suspension ended the session', async () => {
    const { scene, gateway, plant, site } = await setScene({ plant: true });
    await fight(scene, gateway.id, 3);
    await site.setDeviceStatus(gateway.id, 'SUSPENDED');
    await passUntilSent(plant.id);
    expect(await hintsOf(scene, gateway.id)).toEqual([]);
    expect(await openSessions(plant.id)).toBe(0);
  });
});
