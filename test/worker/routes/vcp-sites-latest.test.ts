/** GET /vcp/sites/{siteId}/telemetry/latest (spec: Latest telemetry snapshot; [C-4.1]). */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { formatInstant, isUuid, parseInstant } from '../../../protocol/ids.ts';
import { connectDevice, telemetryMessage } from '../../support/workerd/links.ts';
import { read } from '../../support/workerd/rest.ts';
import { createWorld, type Key, type Plant } from '../../support/workerd/world.ts';

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
const NOTHING = {
  ...Object.fromEntries(NUMERIC_FIELDS.map((field) => [field, null])),
  currentOperatingMode: 'STANDARD',
  dataQuality: 'MISSING',
};

async function readLatest(siteId: string, { key }: Key): Promise<LatestSnapshot> {
  const path = `/api/v1/vcp/sites/${siteId}/telemetry/latest`;
  const snapshot = await read<LatestSnapshot>(path, key);
  expect(snapshot).toEqual({
    version: '1.1',
    messageId: expect.toSatisfy(isUuid),
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    source: 'sitewire',
    siteId,
    payload: expect.any(Object),
  });
  return snapshot;
}

/** Sends one telemetry message of the plant's gateway and waits until it is stored. */
async function report(plant: Plant, data: Record<string, number>): Promise<void> {
  const device = await connectDevice(plant);
  const payload = telemetryMessage(plant.gateway, JSON.stringify(data));
  device.send({ kind: 'publish', seq: 1, topic: 'telemetry', payload });
  await device.next((frame) => frame.kind === 'stored' && frame.seqs.includes(1));
}

function freezeClock(): number {
  vi.useFakeTimers({ toFake: ['Date'] });
  const now = Date.now();
  vi.setSystemTime(now);
  return now;
}

afterEach(() => {
  vi.useRealTimers();
});

describe('GET /vcp/sites/{siteId}/telemetry/latest', () => {
  it('answers a site without data with nulls, MISSING and the time of the read [C-4.1]', async () => {
    const { plant, key } = await createWorld();
    const now = freezeClock();
    const { timestamp, payload } = await readLatest(plant.id, key);
    expect(payload).toEqual(NOTHING);
    expect(timestamp).toBe(formatInstant(now));
  });

  it('gives every read a messageId of its own (spec: Latest telemetry snapshot)', async () => {
    const { plant, key } = await createWorld();
    const first = await readLatest(plant.id, key);
    const second = await readLatest(plant.id, key);
    expect(first.messageId).not.toBe(second.messageId);
  });

  it('shows site-level values as they were sent, dated when they came (spec: Canonical telemetry payload)', async () => {
    const { plant, key } = await createWorld();
    const now = freezeClock();
    const data = {
      gridPowerKw: -12.5,
      fvePowerKw: 40,
      batteryPowerKw: 0,
      consumptionPowerKw: 27.5,
      socPercent: 55.25,
      availableBatteryEnergyKwh: 55,
      batteryTemperatureCelsius: -3,
    };
    await report(plant, data);
    const { timestamp, payload } = await readLatest(plant.id, key);
    expect(payload).toEqual({ ...data, currentOperatingMode: 'STANDARD', dataQuality: 'GOOD' });
    expect(timestamp).toBe(formatInstant(now));
  });

  it('sums sub-devices where no site-level value came, and lists them as samples [C-3.13]', async () => {
    const { plant, key } = await createWorld();
    await report(plant, {
      'BESS-1/powerKw': 10,
      'BESS-1/socPercent': 42,
      'BESS-1/availableCapacityKwh': 41.5,
      'BESS-1/temperatureCelsius': 21,
      'FVE-1/powerKw': 30,
      'FVE-1/regulationPercent': 80,
      'METER-1/powerKw': -5,
      'METER-1/importRegisterKwh': 1000,
    });
    const { payload } = await readLatest(plant.id, key);
    expect(payload).toEqual({
      gridPowerKw: -5,
      fvePowerKw: 30,
      batteryPowerKw: 10,
      consumptionPowerKw: 15,
      socPercent: 42,
      availableBatteryEnergyKwh: 41.5,
      batteryTemperatureCelsius: 21,
      currentOperatingMode: 'STANDARD',
      // The consumption came from the balance.
      dataQuality: 'INTERPOLATED',
      devices: [
        {
          deviceId: 'BESS-1',
          assetType: 'BESS',
          powerKw: 10,
          availableCapacityKwh: 41.5,
          socPercent: 42,
          temperatureCelsius: 21,
        },
        { deviceId: 'FVE-1', assetType: 'FVE', powerKw: 30, regulationPercent: 80 },
        { deviceId: 'METER-1', assetType: 'METER', powerKw: -5 },
      ],
    });
  });

  it('keeps null for what nobody reported (spec: numeric fields may be null)', async () => {
    const { plant, key } = await createWorld();
    await report(plant, { 'FVE-1/powerKw': 7 });
    const { payload } = await readLatest(plant.id, key);
    expect(payload).toMatchObject({ ...NOTHING, fvePowerKw: 7, dataQuality: 'GOOD' });
  });

  it('shows the newest value of each signal, and the time of the newest (spec: Latest telemetry snapshot)', async () => {
    const { plant, key } = await createWorld();
    const now = freezeClock();
    await report(plant, { gridPowerKw: 1, socPercent: 50 });
    vi.setSystemTime(now + 1_500);
    await report(plant, { gridPowerKw: 2 });
    const { timestamp, payload } = await readLatest(plant.id, key);
    expect(payload).toMatchObject({ gridPowerKw: 2, socPercent: 50 });
    expect(timestamp).toBe(formatInstant(now + 1_500));
  });

  it('calls old data STALE and keeps its values and its time (spec: dataQuality)', async () => {
    const { plant, key } = await createWorld();
    const now = freezeClock();
    await report(plant, { gridPowerKw: 3 });
    vi.setSystemTime(now + 60 * 60_000);
    const { timestamp, payload } = await readLatest(plant.id, key);
    expect(payload).toMatchObject({ gridPowerKw: 3, dataQuality: 'STALE' });
    expect(timestamp).toBe(formatInstant(now));
    vi.useRealTimers();
  });

  it('is not made newer by the time that a device claims (spec: most recent ingested reading)', async () => {
    const { plant, key } = await createWorld();
    const now = freezeClock();
    const device = await connectDevice(plant);
    const payload = telemetryMessage(plant.gateway, '{"gridPowerKw":4}', { ts: now + 299_000 });
    device.send({ kind: 'publish', seq: 1, topic: 'telemetry', payload });
    await device.next((frame) => frame.kind === 'stored');
    const { timestamp } = await readLatest(plant.id, key);
    expect(parseInstant(timestamp)).toBe(now);
  });
});
