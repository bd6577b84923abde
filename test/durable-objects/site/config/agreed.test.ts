/**
 * The configuration and schedules that a plant needs while offline: a gateway that serves for the first time,
 * or replaces another, receives them [C-2.3], [C-2.4], [C-7.9].
 */
import type { DeviceTestLink } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND } from '#workerd/site-clock.ts';
import { commandsOf, connectListening } from '#workerd/site-devices.ts';
import { AWAY, endOf, obey, PLANNED, sentTo } from '#workerd/site-plan.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { cancel, schedule, statuses } from '#workerd/site-schedules.ts';
import { submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { addPlant, createDevice, createOrganization, type Plant, siteOf } from '#workerd/world.ts';
import { DEFAULT_SITE_CONFIG, type SiteConfig, UNLIMITED } from '../../../../protocol/site-config.ts';

const CONFIG: SiteConfig = {
  ...DEFAULT_SITE_CONFIG,
  constraints: { ...UNLIMITED, maxImportKw: 60 },
  fallback: { mode: 'ZERO_EXPORT', afterSeconds: 120, action: 'HOLD', setpointKw: null },
};

const put = (siteId: string) =>
  siteOf(siteId).putConfiguration(siteId, {
    config: CONFIG,
    ifMatch: null,
    mayChangeHardLimits: true,
    source: 'an admin',
  });

/** The same plant with a second gateway, for helpers that take a plant. */
async function another(plant: Plant, organization: Awaited<ReturnType<typeof createOrganization>>) {
  const gateway = await createDevice(organization, plant.id, 'GATEWAY');
  return { ...plant, gateway };
}

const actions = (link: DeviceTestLink) => commandsOf(link).map(({ action }) => action);

describe('a plant that was configured before it had a gateway', () => {
  it('the first gateway of a configured plant receives the configuration once, with a log row that its ack ends [C-2.3]', async () => {
    const organization = await createOrganization();
    const id = await addPlant(organization);
    await put(id);
    expect(await newestCommand(id)).toMatchObject({ commandType: 'CONFIG', status: 'COMPLETED' });
    const plant: Plant = { id, gateway: await createDevice(organization, id, 'GATEWAY') };
    await evictSite(id);
    const link = await connectListening(plant);
    const { payload } = await obey({ link, plant }, 1, 'COMPLETED');
    expect(payload).toEqual({
      constraints: CONFIG.constraints,
      fallback: CONFIG.fallback,
      operatingMode: 'STANDARD',
    });
    expect(await newestCommand(id)).toMatchObject({
      commandType: 'CONFIG',
      status: 'COMPLETED',
      source: 'sitewire',
      keyPrefix: null,
    });
    link.socket.close(1000, 'bye');
    await passTime(id, SECOND);
    const again = await connectListening(plant);
    expect(await sentTo(again, plant)).toEqual([]);
    expect((await readCommands(id, 1, 10)).total).toBe(2);
  });

  it('the first gateway of a plant without a configuration receives nothing', async () => {
    const { plant } = await setScene(AWAY);
    expect(await sentTo(await connectListening(plant), plant)).toEqual([]);
  });
});

describe('a gateway that replaces another', () => {
  /** The first gateway has acknowledged a configuration and a schedule, and disconnects. */
  async function handedOver() {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const scheduleId = crypto.randomUUID();
    const set = schedule([1, 2, 3, 4, 5, 6], { scheduleId });
    await partner.submit(submission('config', { constraints: { maxImportKw: 50 } }), set);
    await obey(scene, 1, 'COMPLETED');
    await obey(scene, 2, 'COMPLETED');
    await obey(scene, 3, 'COMPLETED');
    link.socket.close(1000, 'bye');
    await passTime(plant.id, SECOND);
    const other = await another(plant, scene.organization);
    return { ...scene, set, scheduleId, other };
  }

  it('a replacing gateway receives the configuration, each open schedule and the current slot [C-7.9]', async () => {
    const { plant, set, scheduleId, other } = await handedOver();
    const link = await connectListening(other);
    const commands = await sentTo(link, other);
    expect(commands).toEqual(['CONFIG_SET', 'SCHEDULE_SET', 1]);
    const [config, plan] = commandsOf(link);
    expect(config?.payload).toMatchObject({ constraints: { maxImportKw: 50 } });
    expect(plan?.payload).toMatchObject({ scheduleId, slotDurationMinutes: 1 });
    for (const n of [1, 2, 3]) await obey({ link, plant: other }, n, 'COMPLETED');
    await passTime(plant.id, MINUTE);
    expect(await sentTo(link, other)).toEqual(['CONFIG_SET', 'SCHEDULE_SET', 1, 2]);
    expect(await statuses(plant.id)).toEqual(['ACTIVE']);
    expect(await endOf(plant, set)).toBe('EXECUTING');
  });

  it('a connected gateway receives configuration, schedule and slot when the serving gateway is revoked [C-2.4]', async () => {
    const { plant, other } = await handedOver();
    const beside = await connectListening(other);
    await obey({ link: beside, plant: other }, 1, 'COMPLETED');
    await obey({ link: beside, plant: other }, 2, 'COMPLETED');
    // Which of two gateways serves is undefined if both connected in the same millisecond.
    await passTime(plant.id, SECOND);
    const back = await connectListening(plant);
    expect(await sentTo(back, plant)).toEqual(['CONFIG_SET', 'SCHEDULE_SET', 1]);
    await obey({ link: back, plant }, 1, 'COMPLETED');
    await obey({ link: back, plant }, 2, 'COMPLETED');
    const before = actions(beside).length;
    await siteOf(plant.id).setDeviceStatus(plant.gateway.id, 'DECOMMISSIONED');
    expect((await sentTo(beside, other)).slice(before)).toEqual(['CONFIG_SET', 'SCHEDULE_SET', 1]);
  });

  it('if the replacing gateway rejects a schedule, the schedule ends FAILED [C-7.9]', async () => {
    const { plant, set, other } = await handedOver();
    const link = await connectListening(other);
    await obey({ link, plant: other }, 2, 'FAILED');
    expect(await endOf(plant, set)).toBe(`FAILED ${other.gateway.id}: device answered FAILED`);
    expect((await sentTo(link, other)).at(-1)).toBe('STANDARD');
  });

  it('a replacing gateway receives no ended schedule, and each waiting command once [C-7.9]', async () => {
    const { plant, partner, scheduleId, other } = await handedOver();
    await partner.submit(cancel(scheduleId), submission('config', { constraints: { maxImportKw: 40 } }));
    const link = await connectListening(other);
    expect(await sentTo(link, other)).toEqual(['STANDARD', 'SCHEDULE_CANCEL', 'CONFIG_SET']);
    expect(await statuses(plant.id)).toEqual(['CANCELLED']);
  });
});
