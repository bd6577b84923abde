/** Each row of the command log shows the stage that decided, and the facts it saw. */
import { setScene } from '#workerd/scene.ts';
import { MINUTE, START_MS } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { AWAY, obey, PLANNED, planned, rowOf } from '#workerd/site-plan.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { batch, batteryCommand, charge, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { type Plant, siteOf } from '#workerd/world.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';
import type { DeviceCommandItem } from '../../../../protocol/command.ts';
import { commandLogEntry } from '../../../../protocol/command-log.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

/** The decision as the log row shows it after an eviction of the site. */
async function decisionOf(plant: Plant, publish: Submission) {
  await evictSite(plant.id);
  const row = await rowOf(plant, publish);
  expect(commandLogEntry.safeParse(row).error).toBeUndefined();
  return row.decision;
}

describe('the decision of a rejected command', () => {
  const mode = (payload: object, changes: Partial<Submission> = {}) => {
    return () => submission('mode', { mode: 'STANDARD', ...payload }, changes);
  };
  const chargeOf = (deviceId: string) => () => submission('device', batch(batteryCommand(5, { deviceId })));
  const early = { timestampMs: START_MS - 6 * MINUTE };
  const ended = { validUntil: formatInstant(START_MS - MINUTE) };
  const over = { constraint: 'maxImportKw', limit: 100, value: 101, unit: 'kW' };
  const inverter = { assetType: 'FVE', linkedDeviceId: null };

  it.for<[string, () => Submission, object]>([
    ['signature', mode({}, { signature: 'missing' }), { signature: 'missing' }],
    ['freshness', mode({}, early), early],
    ['payload', mode({ mode: 'NO_MODE' }), {}],
    ['window', mode(ended), {}],
    ['constraint', () => planned(101, 'HIGH'), over],
    ['target', chargeOf('BESS-9'), { deviceId: 'BESS-9', topology: null }],
    ['asset', chargeOf('FVE-1'), { deviceId: 'FVE-1', topology: inverter }],
  ])(
    'names the stage %s as the one that rejected the command, and the facts on which that stage decided [C-4.3]',
    async ([stage, make, facts], { plannedSite: { plant, partner } }) => {
      const publish = make();
      expect(await partner.acknowledge(publish)).toMatchObject({ status: 'REJECTED' });
      expect(await decisionOf(plant, publish)).toEqual({ stage, facts: expect.objectContaining(facts) });
    },
  );

  it('a command whose messageId was used for another command is rejected by the stage repeat [C-7.3]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const first = charge(5);
    await partner.submit(first);
    await partner.submit(charge(6, { messageId: first.messageId }));
    const again = await rowOf(plant, first);
    expect(again).toMatchObject({ status: 'REJECTED', decision: { stage: 'repeat' } });
  });

  it('a mode that no asset of the site supports is rejected by the stage topology [C-7.4]', async () => {
    const subDevices = [{ externalId: 'METER-1', assetType: 'METER', meterRole: 'GRID' } as const];
    const { plant, partner } = await setScene({ ...PLANNED, plant: { subDevices } });
    const publish = submission('mode', { mode: 'PEAK_SHAVING' });
    await partner.submit(publish);
    expect(await decisionOf(plant, publish)).toEqual({ stage: 'topology', facts: { assetTypes: ['METER'] } });
  });

  it('a command during an emergency is rejected by the stage constraint, and the decision names the emergency [C-7.7]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    await partner.submit(submission('emergency', { type: 'HOLD' }));
    const publish = charge();
    await partner.submit(publish);
    const facts = expect.objectContaining({ emergency: 'HOLD', deviceId: 'BESS-1' });
    expect(await decisionOf(plant, publish)).toEqual({ stage: 'constraint', facts });
  });

  it('a command for an asset that reports a fault is rejected by the stage fault [C-7.4]', async () => {
    const { plant, partner, link } = await setScene(PLANNED);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 3 });
    const publish = charge();
    await partner.submit(publish);
    expect(await decisionOf(plant, publish)).toMatchObject({ stage: 'fault', facts: { deviceId: 'BESS-1' } });
  });

  it('a command for a site without a serving gateway is rejected by the stage target [C-2.4]', async () => {
    const { plant, partner } = await setScene(AWAY);
    await siteOf(plant.id).setDeviceStatus(plant.gateway.id, 'DECOMMISSIONED');
    const publish = planned(5, 'NORMAL');
    await partner.submit(publish);
    expect(await decisionOf(plant, publish)).toEqual({ stage: 'target', facts: { gateway: null } });
  });
});

describe('the decision of an accepted command', () => {
  const STOP: DeviceCommandItem = { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' };

  it('for a device command it lists the dispatches, whether each device is connected, and the rejected items [C-4.3]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const publish = submission('device', batch(batteryCommand(5), STOP, batteryCommand(5)));
    expect(await partner.acknowledge(publish)).toMatchObject({ status: 'PARTIAL' });
    const deviceId = plant.gateway.id;
    expect(await decisionOf(plant, publish)).toEqual({
      stage: 'dispatch',
      facts: {
        dispatches: [
          { action: 'BESS_CHARGE', deviceId, isThere: true },
          { action: 'FVE_STOP', deviceId, isThere: true },
        ],
        refused: [{ deviceId: 'BESS-1', stage: 'asset' }],
      },
    });
  });

  it('for a command to an offline plant it shows that the device is not connected [C-7.6]', async () => {
    const { plant, partner } = await setScene(AWAY);
    const publish = submission('emergency', { type: 'STOP' });
    await partner.submit(publish);
    expect(await decisionOf(plant, publish)).toEqual({
      stage: 'dispatch',
      facts: { dispatches: [{ action: 'EMERGENCY_STOP', deviceId: plant.gateway.id, isThere: false }] },
    });
  });

  it('for a setpoint it shows the level, whether the setpoint is active, and what is active instead [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const [high, normal] = [planned(9, 'HIGH'), planned(5, 'NORMAL')];
    const ahead = planned(7, 'HIGH', { inMs: MINUTE });
    await partner.submit(high);
    await obey(scene, 1);
    await partner.submit(normal, ahead);
    const dispatches = [{ action: 'SITE_SETPOINT', deviceId: plant.gateway.id, isThere: true }];
    expect(await decisionOf(plant, high)).toEqual({
      stage: 'plan',
      facts: { level: 'HIGH', isOnTop: true, dispatches },
    });
    const { id: commandId } = await rowOf(plant, high);
    for (const [publish, level] of [
      [normal, 'NORMAL'],
      [ahead, 'HIGH'],
    ] as const) {
      expect(await decisionOf(plant, publish)).toEqual({
        stage: 'plan',
        facts: { level, isOnTop: false, onTop: { by: 'entry', commandId }, dispatches },
      });
    }
  });

  it('for a future setpoint it shows that the mode is active now [C-7.7]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const ahead = planned(7, 'HIGH', { inMs: MINUTE });
    await partner.submit(ahead);
    expect(await decisionOf(plant, ahead)).toMatchObject({
      stage: 'plan',
      facts: { isOnTop: false, onTop: { by: 'mode', mode: 'STANDARD' } },
    });
  });
});
