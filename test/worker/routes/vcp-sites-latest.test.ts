/** GET /vcp/sites/{siteId}/telemetry/latest (spec: Latest telemetry snapshot; [C-4.1]). */
import { vi } from 'vitest';
import { connectDevice, telemetryMessage } from '#workerd/links.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { publish, sendTelemetry } from '#workerd/site-devices.ts';
import { describe, expect, expectError, INSTANT, test } from '#workerd/worker-test.ts';
import { createPlant } from '#workerd/world.ts';
import { formatInstant, isUuid, parseInstant } from '../../../protocol/ids.ts';

interface LatestSnapshot {
  messageId: string;
  timestamp: string;
  payload: Record<string, unknown>;
}

const NUMERIC_FIELDS = [
  'gridPowerKw',
  'fvePowerKw',
  'batteryPowerKw',
  'consumptionPowerKw',
  'socPercent',
  'availableBatteryEnergyKwh',
  'batteryTemperatureCelsius',
];
const BATTERY = {
  'BESS-1/powerKw': 10,
  'BESS-1/socPercent': 42,
  'BESS-1/availableCapacityKwh': 41.5,
  'BESS-1/temperatureCelsius': 21,
};
const NOTHING = {
  ...Object.fromEntries(NUMERIC_FIELDS.map((field) => [field, null])),
  currentOperatingMode: 'STANDARD',
  dataQuality: 'MISSING',
};

const it = test
  .extend('readLatest', ({ plant, key }) => async () => {
    const snapshot = await key.read<LatestSnapshot>(`/vcp/sites/${plant.id}/telemetry/latest`);
    expect(snapshot).toEqual({
      version: '1.1',
      messageId: expect.toSatisfy(isUuid),
      timestamp: INSTANT,
      source: 'sitewire',
      siteId: plant.id,
      payload: expect.any(Object),
    });
    return snapshot;
  })
  /** Sends telemetry of the plant’s gateway; it is stored afterwards. */
  .extend('report', ({ plant }) => async (data: Record<string, number>) => {
    expect(await sendTelemetry(await connectDevice(plant), plant.gateway, data)).toBe(true);
  });

/** A plant with two sub-devices of each kind; the batteries differ in capacity. */
const ofTwo = it.extend('plant', ({ organization }) => {
  return createPlant(organization, {
    subDevices: [
      { externalId: 'BESS-1', assetType: 'BESS', capacityKwh: 100 },
      { externalId: 'BESS-2', assetType: 'BESS', capacityKwh: 50 },
      { externalId: 'FVE-1', assetType: 'FVE' },
      { externalId: 'FVE-2', assetType: 'FVE' },
      { externalId: 'METER-1', assetType: 'METER', meterRole: 'GRID' },
      { externalId: 'METER-2', assetType: 'METER', meterRole: 'GRID' },
    ],
  });
});

describe('GET /vcp/sites/{siteId}/telemetry/latest', () => {
  it('a site without data has nulls, MISSING and the present time [C-4.1]', async ({ readLatest }) => {
    const now = stopClock();
    const { timestamp, payload } = await readLatest();
    expect(payload).toEqual(NOTHING);
    expect(timestamp).toBe(formatInstant(now));
  });

  it('is with `at` what was the latest at that time, with its quality and its sub-devices [C-4.1]', async ({
    plant,
    key,
    report,
  }) => {
    const now = stopClock();
    await report({ gridPowerKw: 5, ...BATTERY });
    vi.setSystemTime(now + 60_000);
    await report({ gridPowerKw: 7, 'BESS-1/powerKw': 12 });
    const at = async (sinceMs: number) => {
      const path = `/vcp/sites/${plant.id}/telemetry/latest?at=${formatInstant(now + sinceMs)}`;
      const { timestamp, payload } = await key.read<LatestSnapshot>(path);
      const devices = payload.devices as { powerKw: number }[] | undefined;
      const { gridPowerKw, dataQuality, currentOperatingMode } = payload;
      const power = devices?.[0]?.powerKw ?? null;
      return [Date.parse(timestamp) - now, gridPowerKw, power, dataQuality, currentOperatingMode];
    };
    expect(await at(-1)).toEqual([-1, null, null, 'MISSING', 'STANDARD']);
    expect(await at(0)).toEqual([0, 5, 10, 'GOOD', 'STANDARD']);
    expect(await at(59_999)).toEqual([0, 5, 10, 'GOOD', 'STANDARD']);
    expect(await at(60_000)).toEqual([60_000, 7, 12, 'GOOD', 'STANDARD']);
    // A time to come is now.
    expect(await at(86_400_000)).toEqual(await at(60_000));
    vi.setSystemTime(now + 600_000);
    // Now and later the last values are still shown, as without `at`; of an earlier time they are missing.
    expect(await at(86_400_000)).toEqual([60_000, 7, 12, 'STALE', 'STANDARD']);
    expect(await at(361_000)).toEqual([361_000, null, null, 'MISSING', 'STANDARD']);
    const wrong = await key.call(`/vcp/sites/${plant.id}/telemetry/latest?at=yesterday`);
    await expectError(wrong, 400, 'VALIDATION_ERROR');
  });

  it('every read has its own messageId (spec: Latest telemetry snapshot)', async ({ readLatest }) => {
    const first = await readLatest();
    const second = await readLatest();
    expect(first.messageId).not.toBe(second.messageId);
  });

  it('site values are shown as sent (spec: Canonical telemetry payload)', async ({ readLatest, report }) => {
    const now = stopClock();
    const data = {
      gridPowerKw: -12.5,
      fvePowerKw: 40,
      batteryPowerKw: 0,
      consumptionPowerKw: 27.5,
      socPercent: 55.25,
      availableBatteryEnergyKwh: 55,
      batteryTemperatureCelsius: -3,
    };
    await report(data);
    const { timestamp, payload } = await readLatest();
    expect(payload).toEqual({ ...data, currentOperatingMode: 'STANDARD', dataQuality: 'GOOD' });
    expect(timestamp).toBe(formatInstant(now));
  });

  it('missing site values are computed from sub-devices [C-3.13]', async ({ readLatest, report }) => {
    const battery = { availableCapacityKwh: 41.5, socPercent: 42, temperatureCelsius: 21 };
    await report({
      ...BATTERY,
      'FVE-1/powerKw': 30,
      'FVE-1/regulationPercent': 80,
      'METER-1/powerKw': -5,
      'METER-1/importRegisterKwh': 1000,
    });
    const { payload } = await readLatest();
    expect(payload).toEqual({
      gridPowerKw: -5,
      fvePowerKw: 30,
      batteryPowerKw: 10,
      consumptionPowerKw: 15,
      socPercent: 42,
      availableBatteryEnergyKwh: 41.5,
      batteryTemperatureCelsius: 21,
      currentOperatingMode: 'STANDARD',
      // The consumption is computed from the other values.
      dataQuality: 'INTERPOLATED',
      devices: [
        { deviceId: 'BESS-1', assetType: 'BESS', powerKw: 10, ...battery },
        { deviceId: 'FVE-1', assetType: 'FVE', powerKw: 30, regulationPercent: 80 },
        { deviceId: 'METER-1', assetType: 'METER', powerKw: -5 },
      ],
    });
  });

  ofTwo(
    'power and energy of several sub-devices are summed, socPercent is weighted by capacity, the temperature is the highest [C-3.13]',
    async ({ readLatest, report }) => {
      await report({
        ...BATTERY,
        'BESS-2/powerKw': -4,
        'BESS-2/socPercent': 90,
        'BESS-2/availableCapacityKwh': 45,
        'BESS-2/temperatureCelsius': 18,
        'FVE-1/powerKw': 30,
        'FVE-2/powerKw': 12.5,
        'METER-1/powerKw': -5,
        'METER-2/powerKw': 2,
      });
      const { payload } = await readLatest();
      expect(payload).toMatchObject({
        gridPowerKw: -3,
        fvePowerKw: 42.5,
        batteryPowerKw: 6,
        consumptionPowerKw: 33.5,
        socPercent: (42 * 100 + 90 * 50) / 150,
        availableBatteryEnergyKwh: 86.5,
        batteryTemperatureCelsius: 21,
      });
    },
  );

  ofTwo(
    'a sum is null as long as one of its sub-devices has not reported [C-3.13]',
    async ({ readLatest, report }) => {
      await report({ 'FVE-1/powerKw': 30, 'METER-1/powerKw': -5, 'METER-2/powerKw': 2 });
      const { payload } = await readLatest();
      expect(payload).toMatchObject({ ...NOTHING, gridPowerKw: -3, dataQuality: 'STALE' });
    },
  );

  it('an unreported value is null (spec: numeric fields may be null)', async ({ readLatest, report }) => {
    await report({ 'FVE-1/powerKw': 7 });
    const { payload } = await readLatest();
    expect(payload).toMatchObject({ ...NOTHING, fvePowerKw: 7, dataQuality: 'GOOD' });
  });

  it('each value is the last that was sent, the timestamp that of the newest (spec: Latest telemetry snapshot)', async ({
    readLatest,
    report,
  }) => {
    const now = stopClock();
    await report({ gridPowerKw: 1, socPercent: 50 });
    vi.setSystemTime(now + 1_500);
    await report({ gridPowerKw: 2 });
    const { timestamp, payload } = await readLatest();
    expect(payload).toMatchObject({ gridPowerKw: 2, socPercent: 50 });
    expect(timestamp).toBe(formatInstant(now + 1_500));
  });

  it('values an hour old are STALE, with their time (spec: dataQuality)', async ({ readLatest, report }) => {
    const now = stopClock();
    await report({ gridPowerKw: 3 });
    vi.setSystemTime(now + 60 * 60_000);
    const { timestamp, payload } = await readLatest();
    expect(payload).toMatchObject({ gridPowerKw: 3, dataQuality: 'STALE' });
    expect(timestamp).toBe(formatInstant(now));
  });

  it('the timestamp is when a message arrived, not its ts (spec: most recent ingested reading)', async ({
    plant,
    readLatest,
  }) => {
    const now = stopClock();
    const payload = telemetryMessage(plant.gateway, '{"gridPowerKw":4}', { ts: now + 299_000 });
    expect(await publish(await connectDevice(plant), payload)).toBe(true);
    const { timestamp } = await readLatest();
    expect(parseInstant(timestamp)).toBe(now);
  });
});
