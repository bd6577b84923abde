/** The checks of a submission, in their order: target, constraint, asset, topology, fault [C-7.4]. */
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passTime } from '#workerd/site-clock.ts';
import {
  connectListening,
  connectTo,
  nthCommand,
  sendStatus,
  sendTelemetry,
  stayConnected,
} from '#workerd/site-devices.ts';
import { newestCommand } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import {
  batch,
  batteryCommand,
  powerSetpoint,
  type Submitter,
  submission,
} from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createLinked, DEFAULT_SUB_DEVICES, LIMITED, type SubDeviceOptions, siteOf } from '#workerd/world.ts';
import type { DeviceCommandItem } from '../../../../protocol/command.ts';
import type { CommandFamily } from '../../../../protocol/routing-keys.ts';
import { type Constraints, UNLIMITED } from '../../../../protocol/site-config.ts';

const SECOND_BATTERY: SubDeviceOptions = { externalId: 'BESS-2', assetType: 'BESS', ratedPowerKw: 45 };

async function rejectionOf(partner: Submitter, family: CommandFamily, payload: unknown): Promise<string> {
  const { status, rejectionCode } = await partner.acknowledge(submission(family, payload));
  return status === 'REJECTED' ? (rejectionCode ?? 'no code') : status;
}

describe('the target of a command', () => {
  it('an item whose target is not in the topology is rejected with DEVICE_OFFLINE, whatever else is wrong [C-7.4]', async () => {
    const { partner } = await setScene({ plant: true });
    const item = batteryCommand(1_000, { deviceId: 'BESS-9', assetType: 'FVE' });
    expect(await rejectionOf(partner, 'device', batch(item))).toBe('DEVICE_OFFLINE');
  });

  it.for<[CommandFamily, unknown]>([
    ['site-setpoint', powerSetpoint(1_000)],
    ['mode', { mode: 'STANDARD' }],
    ['emergency', { type: 'STOP' }],
    ['device', batch(batteryCommand(1_000))],
  ])(
    'a command of the family %s for a plant without a serving device is rejected with DEVICE_OFFLINE [C-2.4]',
    async ([family, payload], { plainSite: { plant, partner } }) => {
      await siteOf(plant.id).setDeviceStatus(plant.gateway.id, 'DECOMMISSIONED');
      expect(await rejectionOf(partner, family, payload)).toBe('DEVICE_OFFLINE');
    },
  );

  it('a command for a silent sub-device is DEVICE_OFFLINE if its device has been connected for 60 s, QUEUED if it is away [C-7.4]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    await passTime(plant.id, 2_000);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    for (let minute = 0; minute < 16; minute++) {
      await passTime(plant.id, MINUTE);
      await sendTelemetry(link, plant.gateway, { 'FVE-1/powerKw': 1 });
    }
    const item = batch(batteryCommand(5));
    expect(await rejectionOf(partner, 'device', item)).toBe('DEVICE_OFFLINE');
    await passTime(plant.id, 2 * MINUTE);
    expect(await rejectionOf(partner, 'device', item)).toBe('QUEUED');
  });
});

describe('a silent sub-device whose device connects again', () => {
  /**
   * A plant whose gateway reported once, was disconnected until every sub-device counted as OFFLINE, and is
   * connected again.
   */
  async function newReturnedSite(before: (partner: Submitter) => Promise<unknown> = async () => {}) {
    const { scene, plant, link: first } = await setScene({ gateway: 'listening' });
    await passTime(plant.id, 2_000);
    await sendTelemetry(first, plant.gateway, { 'BESS-1/powerKw': 1 });
    first.socket.close(1000, 'away');
    await passTime(plant.id, 30 * MINUTE);
    await before(scene.partner);
    return { ...scene, link: await connectListening(plant) };
  }

  it('a command queued during the outage is sent when the gateway returns, although its sub-device is still silent [C-7.4]', async () => {
    const { plant, link } = await newReturnedSite((partner) =>
      partner.submit(submission('device', batch(batteryCommand(5)))),
    );
    await nthCommand(link, 1);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'PENDING' });
  });

  it('a command for the sub-device is accepted until its device has been connected for 60 s, then DEVICE_OFFLINE [C-7.4]', async () => {
    const { plant, partner, link } = await newReturnedSite();
    const item = batch(batteryCommand(5));
    await stayConnected(plant, link, MINUTE - 1);
    expect(await rejectionOf(partner, 'device', item)).toBe('ACCEPTED');
    await passTime(plant.id, 1);
    expect(await rejectionOf(partner, 'device', item)).toBe('DEVICE_OFFLINE');
    await passTime(plant.id, 2_000);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/powerKw': 1 });
    expect(await rejectionOf(partner, 'device', item)).toBe('ACCEPTED');
  });

  it('the 60 s count from the connection of its serving device, and evictions do not restart them [C-7.4]', async () => {
    const { plant, partner, link } = await newReturnedSite();
    await stayConnected(plant, link, 40_000);
    await evictSite(plant.id);
    expect(await rejectionOf(partner, 'device', batch(batteryCommand(5)))).toBe('ACCEPTED');
    await stayConnected(plant, link, 20_000);
    await evictSite(plant.id);
    expect(await rejectionOf(partner, 'device', batch(batteryCommand(5)))).toBe('DEVICE_OFFLINE');
  });
});

describe('a device command without powerKw', () => {
  const UNRATED: SubDeviceOptions = { externalId: 'BESS-9', assetType: 'BESS' };
  const site = (constraints: Partial<Constraints>) =>
    setScene({
      plant: { subDevices: [UNRATED], config: { ...LIMITED, constraints: { ...UNLIMITED, ...constraints } } },
    });
  const item = (command: DeviceCommandItem['command']) =>
    batch(batteryCommand(undefined, { deviceId: 'BESS-9', command }));

  it.each([
    ['BESS_CHARGE', { maxChargeKw: 50 }, 'INVALID_PAYLOAD'],
    ['BESS_DISCHARGE', { maxDischargeKw: 50 }, 'INVALID_PAYLOAD'],
    ['BESS_CHARGE', { maxDischargeKw: 50 }, 'QUEUED'],
    ['BESS_CHARGE', {}, 'QUEUED'],
    ['BESS_STOP', { maxChargeKw: 50, maxDischargeKw: 50 }, 'QUEUED'],
  ] as const)(
    'for a battery of unknown rated power: %s under %j is %s [C-7.4]',
    async (command, constraints, expected) => {
      const { partner } = await site(constraints);
      expect(await rejectionOf(partner, 'device', item(command))).toBe(expected);
    },
  );

  it('is checked against the hard limits too [C-7.4]', async () => {
    const config = { ...LIMITED, constraints: null, hardLimits: { ...UNLIMITED, maxChargeKw: 50 } };
    const { partner } = await setScene({ plant: { subDevices: [UNRATED], config } });
    expect(await rejectionOf(partner, 'device', item('BESS_CHARGE'))).toBe('INVALID_PAYLOAD');
  });
});

describe('a constraint', () => {
  const hardened = { ...LIMITED, hardLimits: { ...UNLIMITED, maxImportKw: 60, maxDischargeKw: 20 } };

  const over = 'CONSTRAINT_VIOLATION';
  const energy = { type: 'ENERGY', intervalMinutes: 15 } as const;
  const { targetValueKw: _kw, ...withoutPower } = powerSetpoint(0);

  it.each([
    ['import at the limit', 'QUEUED', powerSetpoint(100)],
    ['import over the limit', over, powerSetpoint(100.001)],
    ['export at the limit', 'QUEUED', powerSetpoint(80, { direction: 'EXPORT' })],
    ['export over the limit', over, powerSetpoint(80.5, { direction: 'EXPORT' })],
    ['an EMERGENCY import over the limit', over, powerSetpoint(101, { priority: 'EMERGENCY' })],
    ['25 kWh in 15 min', 'QUEUED', { ...withoutPower, ...energy, targetValueKwh: 25 }],
    ['25.1 kWh in 15 min', over, { ...withoutPower, ...energy, targetValueKwh: 25.1 }],
  ])('under the constraint of a setpoint, %s is %s [C-7.8]', async (_what, expected, payload) => {
    const { partner } = await setScene({ plant: true });
    expect(await rejectionOf(partner, 'site-setpoint', payload)).toBe(expected);
  });

  it.each([
    ['charge at the limit', 'QUEUED', batteryCommand(50)],
    ['charge over the limit', over, batteryCommand(50.5)],
    ['discharge over the limit', over, batteryCommand(51, { command: 'BESS_DISCHARGE' })],
    [
      'charge over the limit with respectLimits false',
      over,
      batteryCommand(51, { params: { powerKw: 51, respectLimits: false } }),
    ],
    [
      'charge without powerKw, with a rated power of 45 kW,',
      'QUEUED',
      batteryCommand(undefined, { deviceId: 'BESS-2' }),
    ],
    ['a wrong type over the limit', over, batteryCommand(51, { deviceId: 'FVE-1', assetType: 'FVE' })],
  ])('under the constraint of a device command, %s is %s [C-7.4]', async (_what, expected, item) => {
    const { partner } = await setScene({ plant: { subDevices: [...DEFAULT_SUB_DEVICES, SECOND_BATTERY] } });
    expect(await rejectionOf(partner, 'device', batch(item))).toBe(expected);
  });

  it('hard limits apply in addition to the constraints, and the alarm names them [C-2.3]', async () => {
    const { partner } = await setScene({ plant: { config: hardened } });
    expect(await rejectionOf(partner, 'site-setpoint', powerSetpoint(61))).toBe('CONSTRAINT_VIOLATION');
    const discharge = batteryCommand(undefined, { command: 'BESS_DISCHARGE' });
    expect(await rejectionOf(partner, 'device', batch(discharge))).toBe('CONSTRAINT_VIOLATION');
    expect(partner.alarms().map((alarm) => [alarm.constraint, alarm.limit, alarm.value])).toEqual([
      ['hardLimits.maxImportKw', 60, 61],
      ['hardLimits.maxDischargeKw', 20, 40],
    ]);
  });

  it('a plant without limits accepts a setpoint of any power [C-2.3]', async () => {
    const { partner } = await setScene({ plant: { config: { ...LIMITED, constraints: null } } });
    expect(await rejectionOf(partner, 'site-setpoint', powerSetpoint(1e9))).toBe('QUEUED');
  });
});

describe('the asset, topology and fault checks', () => {
  it.for<[string, DeviceCommandItem]>([
    ['a battery command for a meter', batteryCommand(5, { deviceId: 'METER-1', assetType: 'METER' })],
    ['a PV command for a battery', batteryCommand(undefined, { command: 'FVE_STOP' })],
    ['an asset type that is not the one in the topology', batteryCommand(5, { assetType: 'FVE' })],
  ])('%s is INVALID_COMMAND [C-7.4]', async ([_what, item], { plainSite: { partner } }) => {
    expect(await rejectionOf(partner, 'device', batch(item))).toBe('INVALID_COMMAND');
  });

  const exporting = powerSetpoint(5, { direction: 'EXPORT' });
  const excessive = { ...exporting, targetValueKw: 81 };
  const unsupported = 'UNSUPPORTED_FOR_TOPOLOGY';
  it.each<[string, SubDeviceOptions['assetType'], string, CommandFamily, unknown]>([
    ['EXPORT', 'METER', unsupported, 'site-setpoint', exporting],
    ['EXPORT over the limit', 'METER', 'CONSTRAINT_VIOLATION', 'site-setpoint', excessive],
    ['EXPORT', 'INVERTER', 'QUEUED', 'site-setpoint', exporting],
    ['MAX_EXPORT', 'HEAT_PUMP', unsupported, 'mode', { mode: 'MAX_EXPORT' }],
    ['ZERO_EXPORT', 'FVE', 'QUEUED', 'mode', { mode: 'ZERO_EXPORT' }],
    ['PEAK_SHAVING', 'FVE', unsupported, 'mode', { mode: 'PEAK_SHAVING' }],
    ['GRID_TARGET', 'FVE', unsupported, 'mode', { mode: 'GRID_TARGET' }],
    ['LDS_SUPPORT', 'BESS', 'QUEUED', 'mode', { mode: 'LDS_SUPPORT' }],
    ['STANDARD', 'METER', 'QUEUED', 'mode', { mode: 'STANDARD' }],
  ])(
    '%s for a plant with only one sub-device, of the type %s, is %s [C-7.4]',
    async (_what, assetType, expected, family, payload) => {
      const { partner } = await setScene({ plant: { subDevices: [{ externalId: 'ONE', assetType }] } });
      expect(await rejectionOf(partner, family, payload)).toBe(expected);
    },
  );

  it('while the fault signal of its target is not 0, a command that passes all other checks is DEVICE_FAULT [C-7.4]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 3 });
    const submit = (item: ReturnType<typeof batteryCommand>) => rejectionOf(partner, 'device', batch(item));
    expect(await submit(batteryCommand(5))).toBe('DEVICE_FAULT');
    expect(await submit(batteryCommand(51))).toBe('CONSTRAINT_VIOLATION');
    expect(await submit(batteryCommand(5, { command: 'FVE_STOP' }))).toBe('INVALID_COMMAND');
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 0 });
    expect(await submit(batteryCommand(5))).toBe('ACCEPTED');
  });

  it('while a linked device reports ERROR, only commands for its own sub-device are DEVICE_FAULT [C-7.4]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    const inverter = await createLinked(organization, plant.id, SECOND_BATTERY);
    const link = await connectTo(plant.id, inverter.id);
    await sendStatus(link, inverter, 'ERROR');
    const second = batteryCommand(5, { deviceId: 'BESS-2' });
    expect(await rejectionOf(partner, 'device', batch(second))).toBe('DEVICE_FAULT');
    expect(await rejectionOf(partner, 'device', batch(batteryCommand(5)))).toBe('QUEUED');
    await sendStatus(link, inverter, 'ONLINE');
    expect(await rejectionOf(partner, 'device', batch(second))).toBe('QUEUED');
  });
});
