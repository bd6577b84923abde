/**
 * What a plant keeps for when nobody reaches it, configuration and schedules: told to a gateway that serves for the first
 * time, or in another's place [C-2.3], [C-2.4], [C-7.9].
 */
import { describe, expect, it } from 'vitest';
import type { DeviceTestLink } from '#workerd/links.ts';
import { holdClock, MINUTE, passTime, SECOND } from '#workerd/site-clock.ts';
import { commandsOf, connectListening } from '#workerd/site-devices.ts';
import { endOf, newAwaySite, newPlannedSite, obey, told } from '#workerd/site-plan.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { cancel, schedule, statuses } from '#workerd/site-schedules.ts';
import { submission } from '#workerd/site-submissions.ts';
import { addPlant, createDevice, createOrganization, type Plant, siteOf } from '#workerd/world.ts';
import { DEFAULT_SITE_CONFIG, type SiteConfig, UNLIMITED } from '../../../../protocol/site-config.ts';

holdClock();

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

/** Another gateway of the plant, as a plant of its own for what a test asks of it. */
async function another(plant: Plant, organization: Awaited<ReturnType<typeof createOrganization>>) {
  const gateway = await createDevice(organization, plant.id, 'GATEWAY');
  return { ...plant, gateway };
}

const actions = (link: DeviceTestLink) => commandsOf(link).map(({ action }) => action);

describe('a plant that was configured before it had a gateway', () => {
  it('tells its first one, once, with a row in the log that its answer ends [C-2.3]', async () => {
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
    expect(await told(again, plant)).toEqual([]);
    expect((await readCommands(id, 1, 10)).total).toBe(2);
  });

  it('tells nothing where nobody has put anything', async () => {
    const { plant } = await newAwaySite();
    expect(await told(await connectListening(plant), plant)).toEqual([]);
  });
});

describe('a gateway in the place of another', () => {
  /** The first has acknowledged a configuration and a schedule, and goes. */
  async function handedOver() {
    const scene = await newPlannedSite();
    const { plant, partner, link } = scene;
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

  it('is told the configuration, each schedule that is open, and the slot that is due [C-7.9]', async () => {
    const { plant, set, scheduleId, other } = await handedOver();
    const link = await connectListening(other);
    const commands = await told(link, other);
    expect(commands).toEqual(['CONFIG_SET', 'SCHEDULE_SET', 1]);
    const [config, plan] = commandsOf(link);
    expect(config?.payload).toMatchObject({ constraints: { maxImportKw: 50 } });
    expect(plan?.payload).toMatchObject({ scheduleId, slotDurationMinutes: 1 });
    for (const n of [1, 2, 3]) await obey({ link, plant: other }, n, 'COMPLETED');
    await passTime(plant.id, MINUTE);
    expect(await told(link, other)).toEqual(['CONFIG_SET', 'SCHEDULE_SET', 1, 2]);
    expect(await statuses(plant.id)).toEqual(['ACTIVE']);
    expect(await endOf(plant, set)).toBe('EXECUTING');
  });

  it('that was there all the time is told so when the other is revoked [C-2.4]', async () => {
    const { plant, other } = await handedOver();
    const beside = await connectListening(other);
    await obey({ link: beside, plant: other }, 1, 'COMPLETED');
    await obey({ link: beside, plant: other }, 2, 'COMPLETED');
    // Of two that came at one moment nobody can say who serves.
    await passTime(plant.id, SECOND);
    const back = await connectListening(plant);
    expect(await told(back, plant)).toEqual(['CONFIG_SET', 'SCHEDULE_SET', 1]);
    await obey({ link: back, plant }, 1, 'COMPLETED');
    await obey({ link: back, plant }, 2, 'COMPLETED');
    const before = actions(beside).length;
    await siteOf(plant.id).setDeviceStatus(plant.gateway.id, 'DECOMMISSIONED');
    expect((await told(beside, other)).slice(before)).toEqual(['CONFIG_SET', 'SCHEDULE_SET', 1]);
  });

  it('ends the schedule that it refuses [C-7.9]', async () => {
    const { plant, set, other } = await handedOver();
    const link = await connectListening(other);
    await obey({ link, plant: other }, 2, 'FAILED');
    expect(await endOf(plant, set)).toBe(`FAILED ${other.gateway.id}: device answered FAILED`);
    expect((await told(link, other)).at(-1)).toBe('STANDARD');
  });

  it('is told of no schedule that has ended, and of what waits for it once [C-7.9]', async () => {
    const { plant, partner, scheduleId, other } = await handedOver();
    await partner.submit(cancel(scheduleId), submission('config', { constraints: { maxImportKw: 40 } }));
    const link = await connectListening(other);
    expect(await told(link, other)).toEqual(['STANDARD', 'SCHEDULE_CANCEL', 'CONFIG_SET']);
    expect(await statuses(plant.id)).toEqual(['CANCELLED']);
  });
});
