/** A configuration is active when its PUT is answered: for commands, and at the plant [C-2.3]. */
import { bodyOf } from '#workerd/client.ts';
import type { Person } from '#workerd/people.ts';
import { commandsOf, connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { rowsOf } from '#workerd/site-rows.ts';
import { powerSetpoint, Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, test } from '#workerd/worker-test.ts';
import { createPlant } from '#workerd/world.ts';
import { DEFAULT_SITE_CONFIG, UNLIMITED } from '../../../protocol/site-config.ts';

const CONFIG = {
  constraints: { ...UNLIMITED, maxImportKw: 120 },
  fallback: { mode: 'ZERO_EXPORT', afterSeconds: 300, action: 'HOLD', setpointKw: null },
  operatingMode: 'STANDARD',
};

async function put(by: Person, plantId: string, body: object): Promise<void> {
  await bodyOf(await by.put(`/plants/${plantId}/config`, body), 200);
}

/** `plant` belongs to `team`. */
const it = test.extend('plant', ({ team }) => createPlant(team.organization));

describe('a configuration that was put', () => {
  it('the next command over one of the new limits is REJECTED [C-2.3]', async ({ team }) => {
    const { id: siteId } = await createPlant(team.organization, { config: DEFAULT_SITE_CONFIG });
    const partner = new Submitter(siteId, (await team.newKey()).id);
    const setpointOf = (kw: number) => partner.acknowledge(submission('site-setpoint', powerSetpoint(kw)));
    expect(await setpointOf(150)).toMatchObject({ status: 'QUEUED' });
    await put(team.admin, siteId, CONFIG);
    const violation = { status: 'REJECTED', rejectionCode: 'CONSTRAINT_VIOLATION' };
    expect(await setpointOf(121)).toMatchObject(violation);
    expect(await setpointOf(120)).toMatchObject({ status: 'QUEUED' });
    await put(team.orgAdmin, siteId, { ...CONFIG, hardLimits: { ...UNLIMITED, maxImportKw: 20 } });
    expect(await setpointOf(21)).toMatchObject(violation);
  });

  it('each PUT sends its fallback to the gateway, and its mode only if the mode is new [C-7.7]', async ({
    team,
    plant,
  }) => {
    const link = await connectListening(plant);
    const acknowledgeAll = async () => {
      for (const { cmdId } of commandsOf(link)) await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
    };
    const sentBy = (action: string) => commandsOf(link).filter((one) => one.action === action);
    const modes = () => sentBy('MODE_CHANGE').map(({ payload }) => payload.mode);
    const fallbacks = () => sentBy('CONFIG_SET').map(({ payload }) => payload.fallback);
    const { fallback } = CONFIG;
    const other = { ...fallback, afterSeconds: 60 };
    await put(team.admin, plant.id, { ...CONFIG, operatingMode: 'ZERO_EXPORT' });
    await nthCommand(link, 2);
    await acknowledgeAll();
    expect([modes(), fallbacks()]).toEqual([['ZERO_EXPORT'], [fallback]]);
    await put(team.admin, plant.id, { ...CONFIG, operatingMode: 'ZERO_EXPORT', fallback: null });
    await put(team.admin, plant.id, { ...CONFIG, operatingMode: 'MAX_EXPORT', fallback: other });
    await nthCommand(link, 5);
    await acknowledgeAll();
    expect(modes()).toEqual(['ZERO_EXPORT', 'MAX_EXPORT']);
    expect(fallbacks()).toEqual([fallback, null, other]);
  });

  it('the configuration is sent to the plant, and no key gets an event [C-2.3]', async ({ team, plant }) => {
    const link = await connectListening(plant);
    await put(team.admin, plant.id, CONFIG);
    const sent = await nthCommand(link, 1);
    const { hardLimits: _own, ...config } = { ...CONFIG, hardLimits: null };
    expect(sent).toMatchObject({ action: 'CONFIG_SET', payload: config });
    const row = { commandType: 'CONFIG', status: 'PENDING', keyPrefix: null };
    expect(await newestCommand(plant.id)).toMatchObject(row);
    await sendAck(link, plant.gateway, sent.cmdId, 'COMPLETED');
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED', payload: config });
    expect(await rowsOf(plant.id, `SELECT kind FROM outbox WHERE kind IN ('ack', 'execution')`)).toEqual([]);
  });

  it('a setpoint over a new limit ends FAILED and raises an alarm [C-7.9]', async ({ team, plant }) => {
    const key = await team.newKey();
    const listener = await listen(team.organization, key);
    const partner = new Submitter(plant.id, key.id);
    await partner.submit(submission('site-setpoint', powerSetpoint(70)));
    await put(team.admin, plant.id, { ...CONFIG, constraints: { ...UNLIMITED, maxImportKw: 60 } });
    const [, setpoint] = (await readCommands(plant.id)).items;
    expect(setpoint).toMatchObject({ status: 'FAILED', reason: 'CONSTRAINT_VIOLATION' });
    expect(await listener.event('alarm', 'RAISED')).toMatchObject({
      payload: { type: 'CONSTRAINT_VIOLATION', constraint: 'maxImportKw', limit: 60, value: 70 },
    });
  });

  it('a new mode does not end an active setpoint [C-7.7]', async ({ team, plant }) => {
    const link = await connectListening(plant);
    const partner = new Submitter(plant.id);
    await partner.submit(submission('site-setpoint', powerSetpoint(5)));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await put(team.admin, plant.id, { ...CONFIG, operatingMode: 'ZERO_EXPORT' });
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    expect(commandsOf(link).map(({ action }) => action)).toEqual(['SITE_SETPOINT', 'CONFIG_SET']);
  });
});
