/** A change is active when its request is answered; an object that failed to store it gets it again [C-2.3]. */
import { env } from 'cloudflare:workers';
import { beforeEach, vi } from 'vitest';
import { auditOf } from '#workerd/commits.ts';
import { valueFrom } from '#workerd/d1.ts';
import { connectDevice } from '#workerd/links.ts';
import { ackOf, charge, commandLog, Partner, type PublishQuestion, setpoint } from '#workerd/partner.ts';
import { changesOf, removeDevices } from '#workerd/registry-changes.ts';
import { Team } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createPlant } from '#workerd/world.ts';
import { Site } from '../../durable-objects/site.ts';
import { Vhost } from '../../durable-objects/vhost.ts';
import type { Page } from '../../protocol/page.ts';
import type { SubDeviceRecord } from '../../protocol/plant-record.ts';
import { createSubDevice } from '../../registry/sub-devices.ts';
import { announceDue } from '../../worker/lifecycle/registry-change.ts';

const QUEUED = { status: 'QUEUED' };
const NOWHERE = { status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' };
const BATTERY = { externalId: 'BESS-9', assetType: 'BESS', name: 'Nine', ratedPowerKw: 10 } as const;

/** A plant whose gateway is offline, and a connected partner that reads acknowledgements. */
async function newScene() {
  const team = await Team.create();
  const plant = await createPlant(team.organization);
  const partner = await Partner.connect(team.organization, await team.newKey());
  await partner.consume('event.status');
  const scene = {
    team,
    plant,
    partner,
    ackOf: (question: PublishQuestion) => ackOf(partner, question),
    /** The acknowledgement of an unsigned setpoint. */
    unsigned: () =>
      ackOf(partner, partner.command(plant.id, 'site-setpoint', setpoint(), { signingKey: null })),
    /** A charge so small that many of them are within the limits together. */
    chargeOf: (deviceId: string) => {
      const item = { deviceId, assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 0.1 } };
      return partner.command(plant.id, 'device', { commands: [item] });
    },
    addBattery: () => team.operator.post(`/plants/${plant.id}/sub-devices`, BATTERY),
    changeSettings: (settings: object) => team.orgAdmin.patch(`/organizations/${team.id}`, { settings }),
    version: async () => {
      return (
        (await valueFrom<number>('SELECT registry_version FROM organizations WHERE id = ?', team.id)) ?? 0
      );
    },
  };
  expect(await scene.ackOf(partner.command(plant.id, 'device', charge()))).toMatchObject(QUEUED);
  return scene;
}

const it = test.extend('scene', newScene);

async function expectUnavailable(response: Response): Promise<void> {
  expect(response.headers.get('retry-after')).toBe('60');
  await expectError(response, 503, 'SERVICE_UNAVAILABLE');
}

describe('a change whose request was answered', () => {
  it('a changed setting applies to the next publish [C-7.2]', async ({ scene }) => {
    expect(await scene.unsigned()).toMatchObject(QUEUED);
    expect((await scene.changeSettings({ requireSignedCommands: true })).status).toBe(200);
    const refusal = { status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD', message: 'signature missing' };
    expect(await scene.unsigned()).toMatchObject(refusal);
    await scene.changeSettings({ requireSignedCommands: false });
    expect(await scene.unsigned()).toMatchObject(QUEUED);
  });

  it('a command to a new sub-device is QUEUED; its deletion fails that command and rejects the next one [C-2.2]', async ({
    scene,
  }) => {
    expect(await scene.ackOf(scene.chargeOf('BESS-9'))).toMatchObject(NOWHERE);
    const { id } = await scene.team.newSubDevice(scene.plant.id, BATTERY);
    expect(await scene.ackOf(scene.chargeOf('BESS-9'))).toMatchObject(QUEUED);
    await scene.team.operator.remove(`/plants/${scene.plant.id}/sub-devices/${id}`);
    expect(await scene.ackOf(scene.chargeOf('BESS-9'))).toMatchObject(NOWHERE);
    const statuses = (await commandLog(scene.plant.id)).items.map(({ status }) => status);
    expect(statuses).toEqual(['REJECTED', 'FAILED', 'REJECTED', 'PENDING']);
  });

  it('the next command reaches a new plant by its id, by its external id and by a changed external id [C-7.1]', async ({
    scene,
  }) => {
    const { id } = await scene.team.newPlant({ externalPlantId: 'one' });
    const total = async () => (await commandLog(id)).total;
    await scene.ackOf(scene.partner.command(id, 'site-setpoint', setpoint()));
    await scene.ackOf(scene.partner.command('one', 'site-setpoint', setpoint()));
    expect(await total()).toBe(2);
    await scene.team.operator.change(`/plants/${id}`, { externalPlantId: 'two' });
    expect(await scene.ackOf(scene.partner.command('one', 'site-setpoint', setpoint()))).toMatchObject(
      NOWHERE,
    );
    expect(await total()).toBe(2);
    await scene.ackOf(scene.partner.command('two', 'site-setpoint', setpoint()));
    expect(await total()).toBe(3);
  });

  it('a deletion of a plant fails its open commands, closes its links and rejects later commands [C-3.2]', async ({
    scene,
  }) => {
    const device = await connectDevice(scene.plant);
    // A plant with devices cannot be deleted.
    await removeDevices(scene.team.organization, scene.plant.id);
    await scene.team.operator.remove(`/plants/${scene.plant.id}`);
    await device.untilClosed();
    expect((await commandLog(scene.plant.id)).items).toMatchObject([
      { status: 'FAILED', reason: expect.stringMatching(/^PLANT_GONE/) },
    ]);
    expect(await scene.ackOf(scene.partner.command(scene.plant.id, 'device', charge()))).toMatchObject(
      NOWHERE,
    );
    expect(
      await scene.ackOf(scene.partner.command(scene.plant.id, 'emergency', { type: 'STOP' })),
    ).toMatchObject(NOWHERE);
    expect((await commandLog(scene.plant.id)).total, 'no site, so no row').toBe(1);
  });

  it('a change raises the registry version by one, and no change is left in D1 to deliver [C-2.3]', async ({
    scene,
  }) => {
    const version = await scene.version();
    const { id } = await scene.team.newPlant();
    await scene.team.newSubDevice(id);
    await scene.changeSettings({ telemetryIntervalSeconds: 30 });
    await scene.team.operator.remove(`/plants/${id}`);
    expect(await scene.version()).toBe(version + 4);
    expect(await changesOf(scene.team.id)).toEqual([]);
  });

  it('each of many concurrent changes is active when it is answered [C-2.3]', async ({ scene }) => {
    const names = Array.from({ length: 30 }, (_none, index) => `BESS-${index + 10}`);
    const version = await scene.version();
    await Promise.all(
      names.map(async (externalId) => {
        await scene.team.newSubDevice(scene.plant.id, { ...BATTERY, externalId });
        expect(await scene.partner.ask(scene.chargeOf(externalId))).toMatchObject({ kind: 'stored' });
      }),
    );
    const { items } = await commandLog(scene.plant.id);
    const taken = items.filter(({ target }) => names.includes(target ?? ''));
    expect(taken.map(({ status }) => status)).toEqual(names.map(() => 'PENDING'));
    expect([await scene.version(), await changesOf(scene.team.id)]).toEqual([version + 30, []]);
  });
});

describe('an object that cannot store a change', () => {
  beforeEach(() => {
    vi.spyOn(console, 'warn').mockReturnValue(undefined);
  });

  function breakObject(prototype: Site | Vhost) {
    return vi
      .spyOn(prototype as { registryChanged(...given: unknown[]): Promise<void> }, 'registryChanged')
      .mockImplementation(() => {
        throw new Error('the test wants it so');
      });
  }

  it('makes the request get 503; the change stays in D1 and is sent again until the object stores it [C-2.3]', async ({
    scene,
  }) => {
    breakObject(Site.prototype);
    await expectUnavailable(await scene.addBattery());
    const { data } = await scene.team.viewer.read<Page<SubDeviceRecord>>(
      `/plants/${scene.plant.id}/sub-devices`,
    );
    expect(data.map(({ externalId }) => externalId)).toContain('BESS-9');
    expect(await changesOf(scene.team.id)).toMatchObject([
      { targets: [`site:${scene.plant.id}`], version: await scene.version() },
    ]);
    expect(await scene.ackOf(scene.chargeOf('BESS-9'))).toMatchObject(NOWHERE);
    await announceDue(env, Date.now());
    expect(await changesOf(scene.team.id), 'still broken').toHaveLength(1);
    vi.restoreAllMocks();
    await announceDue(env, Date.now());
    expect(await changesOf(scene.team.id)).toEqual([]);
    expect(await scene.ackOf(scene.chargeOf('BESS-9'))).toMatchObject(QUEUED);
  });

  it('gets the change again, and an object that stored it does not [C-2.3]', async ({ scene }) => {
    const earlier = vi.spyOn(Site.prototype, 'registryChanged');
    breakObject(Vhost.prototype);
    await expectUnavailable(await scene.changeSettings({ requireSignedCommands: true }));
    expect(await changesOf(scene.team.id)).toMatchObject([{ targets: [`vhost:${scene.partner.key.id}`] }]);
    expect(earlier).toHaveBeenCalledTimes(1);
    vi.restoreAllMocks();
    const later = vi.spyOn(Site.prototype, 'registryChanged');
    await announceDue(env, Date.now());
    expect([later.mock.calls.length, await changesOf(scene.team.id)]).toEqual([0, []]);
    expect(await scene.unsigned()).toMatchObject({ status: 'REJECTED' });
  });

  it('also gets the change together with the next change of any organization [C-2.3]', async ({ scene }) => {
    breakObject(Site.prototype);
    await expectUnavailable(await scene.addBattery());
    vi.restoreAllMocks();
    await (await Team.create()).newPlant();
    expect(await changesOf(scene.team.id)).toEqual([]);
    expect(await scene.ackOf(scene.chargeOf('BESS-9'))).toMatchObject(QUEUED);
  });

  it('makes the request get 503 if it has not answered after 5 s, and gets the change later [C-2.3]', async ({
    scene,
  }) => {
    breakObject(Site.prototype).mockImplementation(() => new Promise(() => {}));
    const later = globalThis.setTimeout;
    vi.spyOn(globalThis, 'setTimeout').mockImplementation(((work: () => void, ms: number) =>
      later(work, ms === 5_000 ? 0 : ms)) as typeof setTimeout);
    await expectUnavailable(await scene.addBattery());
    vi.restoreAllMocks();
    await announceDue(env, Date.now());
    expect(await changesOf(scene.team.id)).toEqual([]);
  });

  it('a committed change that was never sent is sent ten seconds later [C-2.3]', async ({ scene }) => {
    const audit = auditOf(scene.team.organization, 'sub_device.created', 'SUB_DEVICE');
    const whose = { organizationId: scene.team.id, plantId: scene.plant.id };
    const now = Date.now();
    await createSubDevice(env.DB, whose, BATTERY, audit, now);
    await announceDue(env, now + 9_999);
    expect(await changesOf(scene.team.id)).toHaveLength(1);
    expect(await scene.ackOf(scene.chargeOf('BESS-9'))).toMatchObject(NOWHERE);
    await announceDue(env, now + 10_000);
    expect(await changesOf(scene.team.id)).toEqual([]);
    expect(await scene.ackOf(scene.chargeOf('BESS-9'))).toMatchObject(QUEUED);
  });
});
