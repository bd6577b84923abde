/** A configuration that an admin put is in force when the request answers: for commands, and for the plant [C-2.3]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_SITE_CONFIG, UNLIMITED } from '../../../protocol/site-config.ts';
import { organizationOf } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { commandsOf, connectListening, nthCommand, sendAck } from '../../support/workerd/site-devices.ts';
import { listen } from '../../support/workerd/site-listener.ts';
import { newestCommand, readCommands } from '../../support/workerd/site-reads.ts';
import { rowsOf } from '../../support/workerd/site-rows.ts';
import { powerSetpoint, Submitter, submission } from '../../support/workerd/site-submissions.ts';
import { createKey, createPlant } from '../../support/workerd/world.ts';

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

const CONFIG = {
  constraints: { ...UNLIMITED, maxImportKw: 120 },
  fallback: { mode: 'ZERO_EXPORT', afterSeconds: 300, action: 'HOLD', setpointKw: null },
  operatingMode: 'STANDARD',
};

async function put(plantId: string, body: object, by = team.admin): Promise<void> {
  await by.read(`/plants/${plantId}/config`, { method: 'PUT', body });
}

describe('a configuration that was put', () => {
  it('is what the very next command is held to, hard limits too [C-2.3]', async () => {
    const organization = organizationOf(team);
    const { id: siteId } = await createPlant(organization, { config: DEFAULT_SITE_CONFIG });
    const partner = new Submitter(siteId, (await createKey(organization)).id);
    const setpointOf = (kw: number) => partner.acknowledge(submission('site-setpoint', powerSetpoint(kw)));
    expect(await setpointOf(150)).toMatchObject({ status: 'QUEUED' });
    await put(siteId, CONFIG);
    const violation = { status: 'REJECTED', rejectionCode: 'CONSTRAINT_VIOLATION' };
    expect(await setpointOf(121)).toMatchObject(violation);
    expect(await setpointOf(120)).toMatchObject({ status: 'QUEUED' });
    await put(siteId, { ...CONFIG, hardLimits: { ...UNLIMITED, maxImportKw: 20 } }, team.orgAdmin);
    expect(await setpointOf(21)).toMatchObject(violation);
  });

  it('tells the plant its mode, once, and by that what it does where no setpoint stands [C-7.7]', async () => {
    const plant = await createPlant(organizationOf(team));
    const link = await connectListening(plant);
    const modes = async () => {
      for (const { cmdId } of commandsOf(link)) await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
      return commandsOf(link).flatMap(({ action, payload }) =>
        action === 'MODE_CHANGE' ? payload.mode : [],
      );
    };
    await put(plant.id, { ...CONFIG, operatingMode: 'ZERO_EXPORT' });
    await nthCommand(link, 2);
    expect(await modes()).toEqual(['ZERO_EXPORT']);
    await put(plant.id, { ...CONFIG, operatingMode: 'ZERO_EXPORT', fallback: null });
    await put(plant.id, { ...CONFIG, operatingMode: 'MAX_EXPORT' });
    await nthCommand(link, 5);
    expect(await modes()).toEqual(['ZERO_EXPORT', 'MAX_EXPORT']);
  });

  it('goes to the plant, and its ack ends the row of it; no key is told [C-2.3]', async () => {
    const plant = await createPlant(organizationOf(team));
    const link = await connectListening(plant);
    await put(plant.id, CONFIG);
    const told = await nthCommand(link, 1);
    const { hardLimits: _own, ...config } = { ...CONFIG, hardLimits: null };
    expect(told).toMatchObject({ action: 'CONFIG_SET', payload: config });
    expect(await newestCommand(plant.id)).toMatchObject({
      commandType: 'CONFIG',
      status: 'PENDING',
      keyPrefix: null,
    });
    await sendAck(link, plant.gateway, told.cmdId, 'COMPLETED');
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED', payload: config });
    expect(await rowsOf(plant.id, `SELECT kind FROM outbox WHERE kind IN ('ack', 'execution')`)).toEqual([]);
  });

  it('ends a setpoint that it leaves no room for, with its alarm [C-7.9]', async () => {
    const organization = organizationOf(team);
    const plant = await createPlant(organization);
    const key = await createKey(organization);
    const listener = await listen(organization, key);
    const partner = new Submitter(plant.id, key.id);
    await partner.submit(submission('site-setpoint', powerSetpoint(70)));
    await put(plant.id, { ...CONFIG, constraints: { ...UNLIMITED, maxImportKw: 60 } });
    const [, setpoint] = (await readCommands(plant.id)).items;
    expect(setpoint).toMatchObject({ status: 'FAILED', reason: 'CONSTRAINT_VIOLATION' });
    expect(await listener.event('alarm', 'RAISED')).toMatchObject({
      payload: { type: 'CONSTRAINT_VIOLATION', constraint: 'maxImportKw', limit: 60, value: 70 },
    });
  });

  it('leaves a setpoint that stands to stand [C-7.7]', async () => {
    const plant = await createPlant(organizationOf(team));
    const link = await connectListening(plant);
    const partner = new Submitter(plant.id);
    await partner.submit(submission('site-setpoint', powerSetpoint(5)));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await put(plant.id, { ...CONFIG, operatingMode: 'ZERO_EXPORT' });
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    expect(commandsOf(link).map(({ action }) => action)).toEqual(['SITE_SETPOINT', 'CONFIG_SET']);
  });
});
