/** A change is in force when its request answers; what an object could not take is told again until it has it [C-2.3]. */
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Site } from '../../durable-objects/site.ts';
import { Vhost } from '../../durable-objects/vhost.ts';
import type { Page } from '../../protocol/page.ts';
import type { SubDeviceRecord } from '../../protocol/plant-record.ts';
import { announceDue } from '../../worker/lifecycle/registry-change.ts';
import { createSubDevice } from '../../worker/registry/sub-devices.ts';
import { changesOf, organizationOf, postPlant, postSubDevice } from '../support/workerd/fleet.ts';
import { connectDevice } from '../support/workerd/links.ts';
import {
  charge,
  commandLog,
  eventOf,
  Partner,
  type PublishQuestion,
  setpoint,
} from '../support/workerd/partner.ts';
import { type Call, createTeam, type Person, type Team } from '../support/workerd/people.ts';
import { removeDevices } from '../support/workerd/registry-changes.ts';
import { callRoute } from '../support/workerd/routes.ts';
import { createKey, createPlant, type Plant } from '../support/workerd/world.ts';

let team: Team;
let plant: Plant;
let partner: Partner;

/** A plant with a gateway that is away, and a partner who is connected and reads acknowledgements. */
beforeEach(async () => {
  team = await createTeam();
  const organization = organizationOf(team);
  plant = await createPlant(organization);
  partner = await Partner.connect(organization, await createKey(organization));
  await partner.consume('event.status');
  expect(await ackOf(partner.command(plant.id, 'device', charge()))).toMatchObject(QUEUED);
});

afterEach(() => {
  vi.restoreAllMocks();
});

const QUEUED = { status: 'QUEUED' };
const NOWHERE = { status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' };
const BATTERY = { externalId: 'BESS-9', assetType: 'BESS', name: 'Nine', ratedPowerKw: 10 } as const;

/** The acknowledgement of a publish. */
async function ackOf(question: PublishQuestion): Promise<Record<string, unknown>> {
  const before = partner.deliveries('event.status').length;
  expect(await partner.ask(question)).toMatchObject({ kind: 'stored' });
  const ack = (await partner.delivered(before + 1, 'event.status')).at(-1);
  return ack ? eventOf(ack).payload : {};
}

/** So little that many of them are within the limits together. */
function chargeOf(deviceId: string): PublishQuestion {
  const item = { deviceId, assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 0.1 } };
  return partner.command(plant.id, 'device', { commands: [item] });
}

/** The answer, once what the Worker does behind it is done. */
function settled(by: Person, path: string, { method = 'GET', body }: Call): Promise<Response> {
  return callRoute({ method }, `/api/v1${path}`, { authorization: `Bearer ${by.accessToken}` }, body);
}

function addBattery(): Promise<Response> {
  return settled(team.operator, `/plants/${plant.id}/sub-devices`, { method: 'POST', body: BATTERY });
}

function changeSettings(settings: object): Promise<Response> {
  return settled(team.orgAdmin, `/organizations/${team.id}`, { method: 'PATCH', body: { settings } });
}

async function versionOf(): Promise<number> {
  const sql = 'SELECT registry_version AS version FROM organizations WHERE id = ?';
  return (await env.DB.prepare(sql).bind(team.id).first<number>('version')) ?? 0;
}

describe('a change that was answered', () => {
  it('of settings is kept by the very next publish of a partner who was connected before [C-7.2]', async () => {
    const unsigned = () => partner.command(plant.id, 'site-setpoint', setpoint(), { signingKey: null });
    expect(await ackOf(unsigned())).toMatchObject(QUEUED);
    expect((await changeSettings({ requireSignedCommands: true })).status).toBe(200);
    const refusal = { status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD', message: 'signature missing' };
    expect(await ackOf(unsigned())).toMatchObject(refusal);
    await changeSettings({ requireSignedCommands: false });
    expect(await ackOf(unsigned())).toMatchObject(QUEUED);
  });

  it('of sub-devices decides the next command, and ends what waits for one that is gone [C-2.2]', async () => {
    expect(await ackOf(chargeOf('BESS-9'))).toMatchObject(NOWHERE);
    const { id } = await postSubDevice(team.operator, plant.id, BATTERY);
    expect(await ackOf(chargeOf('BESS-9'))).toMatchObject(QUEUED);
    await team.operator.read(`/plants/${plant.id}/sub-devices/${id}`, { method: 'DELETE' });
    expect(await ackOf(chargeOf('BESS-9'))).toMatchObject(NOWHERE);
    const statuses = (await commandLog(plant.id)).items.map(({ status }) => status);
    expect(statuses).toEqual(['REJECTED', 'FAILED', 'REJECTED', 'PENDING']);
  });

  it('that makes a plant, or gives it another external id, is known to the next command [C-7.1]', async () => {
    const { id } = await postPlant(team.operator, { externalPlantId: 'one' });
    const total = async () => (await commandLog(id)).total;
    await ackOf(partner.command(id, 'site-setpoint', setpoint()));
    await ackOf(partner.command('one', 'site-setpoint', setpoint()));
    expect(await total()).toBe(2);
    await team.operator.read(`/plants/${id}`, { method: 'PATCH', body: { externalPlantId: 'two' } });
    expect(await ackOf(partner.command('one', 'site-setpoint', setpoint()))).toMatchObject(NOWHERE);
    expect(await total()).toBe(2);
    await ackOf(partner.command('two', 'site-setpoint', setpoint()));
    expect(await total()).toBe(3);
  });

  it('that deletes a plant ends what waits for it, cuts its devices and refuses the next command [C-3.2]', async () => {
    const device = await connectDevice(plant);
    // As a device that was deleted before it.
    await removeDevices(organizationOf(team), plant.id);
    await team.operator.read(`/plants/${plant.id}`, { method: 'DELETE' });
    await device.untilClosed();
    expect((await commandLog(plant.id)).items).toMatchObject([
      { status: 'FAILED', reason: expect.stringMatching(/^PLANT_GONE/) },
    ]);
    expect(await ackOf(partner.command(plant.id, 'device', charge()))).toMatchObject(NOWHERE);
    expect(await ackOf(partner.command(plant.id, 'emergency', { type: 'STOP' }))).toMatchObject(NOWHERE);
    expect((await commandLog(plant.id)).total, 'no site, so no row').toBe(1);
  });

  it('leaves nothing behind that waits to be told, and raises the version by one [C-2.3]', async () => {
    const version = await versionOf();
    const { id } = await postPlant(team.operator);
    await postSubDevice(team.operator, id);
    await changeSettings({ telemetryIntervalSeconds: 30 });
    await team.operator.read(`/plants/${id}`, { method: 'DELETE' });
    expect(await versionOf()).toBe(version + 4);
    expect(await changesOf(team.id)).toEqual([]);
  });

  it('of many at once is in force with each: none is lost, none is left waiting [C-2.3]', async () => {
    const names = Array.from({ length: 30 }, (_none, index) => `BESS-${index + 10}`);
    const version = await versionOf();
    await Promise.all(
      names.map(async (externalId) => {
        await postSubDevice(team.operator, plant.id, { ...BATTERY, externalId });
        expect(await partner.ask(chargeOf(externalId))).toMatchObject({ kind: 'stored' });
      }),
    );
    const { items } = await commandLog(plant.id);
    const taken = items.filter(({ target }) => names.includes(target ?? ''));
    expect(taken.map(({ status }) => status)).toEqual(names.map(() => 'PENDING'));
    expect([await versionOf(), await changesOf(team.id)]).toEqual([version + 30, []]);
  });
});

describe('an object that cannot take a change', () => {
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

  it('makes the answer 503 with Retry-After: the change stands, and is told when its time comes [C-2.3]', async () => {
    breakObject(Site.prototype);
    await expectUnavailable(await addBattery());
    const { data } = await team.viewer.read<Page<SubDeviceRecord>>(`/plants/${plant.id}/sub-devices`);
    expect(data.map(({ externalId }) => externalId)).toContain('BESS-9');
    expect(await changesOf(team.id)).toMatchObject([
      { targets: [`site:${plant.id}`], version: await versionOf() },
    ]);
    expect(await ackOf(chargeOf('BESS-9'))).toMatchObject(NOWHERE);
    await announceDue(env, Date.now());
    expect(await changesOf(team.id), 'still broken').toHaveLength(1);
    vi.restoreAllMocks();
    await announceDue(env, Date.now());
    expect(await changesOf(team.id)).toEqual([]);
    expect(await ackOf(chargeOf('BESS-9'))).toMatchObject(QUEUED);
  });

  it('is all that is told again: those that have taken it are not asked twice [C-2.3]', async () => {
    const told = vi.spyOn(Site.prototype, 'registryChanged');
    breakObject(Vhost.prototype);
    await expectUnavailable(await changeSettings({ requireSignedCommands: true }));
    expect(await changesOf(team.id)).toMatchObject([{ targets: [`vhost:${partner.key.id}`] }]);
    expect(told).toHaveBeenCalledTimes(1);
    vi.restoreAllMocks();
    const later = vi.spyOn(Site.prototype, 'registryChanged');
    await announceDue(env, Date.now());
    expect([later.mock.calls.length, await changesOf(team.id)]).toEqual([0, []]);
    const unsigned = partner.command(plant.id, 'site-setpoint', setpoint(), { signingKey: null });
    expect(await ackOf(unsigned)).toMatchObject({ status: 'REJECTED' });
  });

  it('has it with the next change of anybody [C-2.3]', async () => {
    breakObject(Site.prototype);
    await expectUnavailable(await addBattery());
    vi.restoreAllMocks();
    const other = await createTeam();
    await settled(other.operator, '/plants', { method: 'POST', body: { name: 'x' } });
    expect(await changesOf(team.id)).toEqual([]);
    expect(await ackOf(chargeOf('BESS-9'))).toMatchObject(QUEUED);
  });

  it('holds up nobody for longer than 5 s when it does not answer at all [C-2.3]', async () => {
    breakObject(Site.prototype).mockImplementation(() => new Promise(() => {}));
    const later = globalThis.setTimeout;
    vi.spyOn(globalThis, 'setTimeout').mockImplementation(((work: () => void, ms: number) =>
      later(work, ms === 5_000 ? 0 : ms)) as typeof setTimeout);
    await expectUnavailable(await addBattery());
    vi.restoreAllMocks();
    await announceDue(env, Date.now());
    expect(await changesOf(team.id)).toEqual([]);
  });

  it('has it although the request that made it came to nothing: ten seconds later it is anybody’s [C-2.3]', async () => {
    const audit = () => ({
      organizationId: team.id,
      event: 'sub_device.created',
      actor: { type: 'USER', id: team.operator.id, name: team.operator.email } as const,
      target: null,
      address: null,
      outcome: 'SUCCESS' as const,
      details: {},
    });
    const now = Date.now();
    await createSubDevice(env.DB, { organizationId: team.id, plantId: plant.id }, BATTERY, audit, now);
    await announceDue(env, now + 9_999);
    expect(await changesOf(team.id)).toHaveLength(1);
    expect(await ackOf(chargeOf('BESS-9'))).toMatchObject(NOWHERE);
    await announceDue(env, now + 10_000);
    expect(await changesOf(team.id)).toEqual([]);
    expect(await ackOf(chargeOf('BESS-9'))).toMatchObject(QUEUED);
  });
});

async function expectUnavailable(response: Response): Promise<void> {
  expect(response.headers.get('retry-after')).toBe('60');
  expect([response.status, await response.json()]).toEqual([
    503,
    expect.objectContaining({ code: 'SERVICE_UNAVAILABLE' }),
  ]);
}
