/** The quality of the canonical payload, which depends only on the signals that it shows [C-4.5]. */
import { describe, expect, it } from 'vitest';
import { subDevice } from '#workerd/site-view.ts';
import { canonicalTelemetry } from '../../../../durable-objects/site/telemetry/canonical.ts';
import { Snapshot } from '../../../../durable-objects/site/telemetry/snapshot.ts';
import type { SubDevice } from '../../../../registry/plant-copy.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');

const HOUSE = subDevice('METER-2', 'METER', { meterRole: 'CONSUMPTION' });
const BESS_1 = subDevice('BESS-1', 'BESS', { capacityKwh: 100 });
const BESS_2 = subDevice('BESS-2', 'BESS', { capacityKwh: 50 });
const BATTERIES = [BESS_1, BESS_2];
const FVE_1 = subDevice('FVE-1', 'FVE');

describe('a value of the site', () => {
  const BATTERY = { value: 9, atMs: NOW_MS - 5 * 60_000 };
  const battery = (samples: Record<string, { value: number; atMs: number }>, subDevices: SubDevice[]) =>
    canonicalTelemetry(new Snapshot(() => true, samples), subDevices, 'STANDARD', NOW_MS).batteryPowerKw;

  it.each<[string, number, Record<string, { value: number; atMs: number }>]>([
    ['that is fresh replaces its parts', 9, { batteryPowerKw: { value: 9, atMs: NOW_MS - 299_999 } }],
    ['that is stale is replaced by its parts if they are fresh', 2, { batteryPowerKw: BATTERY }],
    ['that is missing is replaced by its parts', 2, {}],
  ])('a site value %s [C-3.13]', (_what, expected, samples) => {
    expect(battery({ 'BESS-1/powerKw': { value: 2, atMs: NOW_MS }, ...samples }, [BESS_1])).toBe(expected);
  });

  it.each<[string, Record<string, { value: number; atMs: number }>]>([
    ['are stale, too', { 'BESS-1/powerKw': { value: 2, atMs: NOW_MS - 300_000 } }],
    ['are missing', {}],
  ])('a stale site value stays if its parts %s [C-3.13]', (_what, samples) => {
    expect(battery({ batteryPowerKw: BATTERY, ...samples }, [BESS_1])).toBe(9);
  });
});

describe('the quality', () => {
  const STALE_MS = 5 * 60_000;
  /** The quality of a payload whose values have the given ages. */
  const qualityOf = (ages: Record<string, number>, subDevices: readonly SubDevice[] = []) => {
    const samples = Object.fromEntries(
      Object.entries(ages).map(([name, ageMs]) => [name, { value: 1, atMs: NOW_MS - ageMs }]),
    );
    return canonicalTelemetry(new Snapshot(() => true, samples), subDevices, 'STANDARD', NOW_MS).dataQuality;
  };

  it.each([
    [0, 'GOOD'],
    [STALE_MS - 1, 'GOOD'],
    [STALE_MS, 'STALE'],
    [86_400_000, 'STALE'],
  ])('is, for data that is %d ms old, %s [C-4.5]', (ageMs, expected) => {
    expect(qualityOf({ consumptionPowerKw: ageMs })).toBe(expected);
  });

  const OLD = STALE_MS;

  it.each<[string, string, Record<string, number>, SubDevice[]]>([
    ['one value that is shown is old', 'STALE', { gridPowerKw: OLD }, []],
    ['a part of a sum that is shown is old', 'STALE', { 'BESS-1/powerKw': OLD }, [BESS_1]],
    [
      'a value that the payload does not show is old',
      'GOOD',
      { 'FVE-1/productionRegisterKwh': OLD },
      [FVE_1],
    ],
    ['an unknown signal is old', 'GOOD', { nonsense: OLD }, []],
    ['a sub-device that the plant no longer has is old', 'GOOD', { 'BESS-9/powerKw': OLD }, [BESS_1]],
    ['a part that a site value replaces is old', 'GOOD', { 'METER-2/powerKw': OLD }, []],
    ['a part of a sum is missing', 'STALE', { 'BESS-1/powerKw': 0 }, BATTERIES],
    ['a site value replaces a missing part', 'GOOD', { batteryPowerKw: 0, 'BESS-1/powerKw': 0 }, BATTERIES],
    ['parts replace a stale value', 'GOOD', { batteryPowerKw: OLD, 'BESS-1/powerKw': 0 }, [BESS_1]],
    [
      'a site value is stale and a part missing',
      'STALE',
      { batteryPowerKw: OLD, 'BESS-1/powerKw': 0 },
      BATTERIES,
    ],
  ])('if %s, and the consumption is fresh, is %s [C-4.5]', (_what, expected, ages, subDevices) => {
    expect(qualityOf({ ...ages, consumptionPowerKw: 0 }, subDevices)).toBe(expected);
  });

  it.each<[string, string, Record<string, number>, SubDevice[]]>([
    ['the consumption comes from the balance', 'INTERPOLATED', { gridPowerKw: 0 }, []],
    ['the balance uses an old value', 'STALE', { gridPowerKw: 0, fvePowerKw: OLD }, []],
    ['the consumption is metered', 'GOOD', { gridPowerKw: 0, 'METER-2/powerKw': 0 }, [HOUSE]],
    ['no field shows a known signal', 'MISSING', { nonsense: 0, 'FVE-1/productionRegisterKwh': 0 }, [FVE_1]],
  ])('if %s, is %s [C-4.5]', (_what, expected, ages, subDevices) => {
    expect(qualityOf(ages, subDevices)).toBe(expected);
  });
});
