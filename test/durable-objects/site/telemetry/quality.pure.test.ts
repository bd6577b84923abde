/** The quality of the canonical payload, which depends only on the signals that it shows [C-4.5]. */
import { describe, expect, it } from 'vitest';
import { subDevice } from '#workerd/site-view.ts';
import type { SubDevice } from '../../../../durable-objects/registry/plant-copy.ts';
import { canonicalTelemetry } from '../../../../durable-objects/site/telemetry/canonical.ts';
import { Snapshot } from '../../../../durable-objects/site/telemetry/snapshot.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');

const HOUSE = subDevice('METER-2', 'METER', { meterRole: 'CONSUMPTION' });
const BESS_1 = subDevice('BESS-1', 'BESS', { capacityKwh: 100 });
const BESS_2 = subDevice('BESS-2', 'BESS', { capacityKwh: 50 });
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
  /** Like `canonical`, with an age for each value. */
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
  ])('of data that is %d ms old is %s [C-4.5]', (ageMs, expected) => {
    expect(qualityOf({ consumptionPowerKw: ageMs })).toBe(expected);
  });

  it.each<[string, string, Record<string, number>, SubDevice[]]>([
    [
      'one value that is shown is old, whatever else is fresh',
      'STALE',
      { gridPowerKw: STALE_MS, consumptionPowerKw: 0 },
      [],
    ],
    [
      'a part of a sum that is shown is old',
      'STALE',
      { 'BESS-1/powerKw': STALE_MS, consumptionPowerKw: 0 },
      [BESS_1],
    ],
    [
      'a value that no sum shows is old',
      'GOOD',
      { 'FVE-1/productionRegisterKwh': STALE_MS, consumptionPowerKw: 0 },
      [FVE_1],
    ],
    ['a signal that means nothing here is old', 'GOOD', { nonsense: STALE_MS, consumptionPowerKw: 0 }, []],
    [
      'a sub-device that the plant no longer has is old',
      'GOOD',
      { 'BESS-9/powerKw': STALE_MS, consumptionPowerKw: 0 },
      [BESS_1],
    ],
    [
      'a part that a site value replaces is old',
      'GOOD',
      { 'METER-2/powerKw': STALE_MS, consumptionPowerKw: 0 },
      [],
    ],
    ['the consumption comes from the balance', 'INTERPOLATED', { gridPowerKw: 0 }, []],
    [
      'the consumption comes from the balance of something old',
      'STALE',
      { gridPowerKw: 0, fvePowerKw: STALE_MS },
      [],
    ],
    [
      'a part of a sum is missing, whatever else is fresh',
      'STALE',
      { 'BESS-1/powerKw': 0, consumptionPowerKw: 0 },
      [BESS_1, BESS_2],
    ],
    [
      'a site value replaces all of its parts, one of which is missing',
      'GOOD',
      { batteryPowerKw: 0, 'BESS-1/powerKw': 0, consumptionPowerKw: 0 },
      [BESS_1, BESS_2],
    ],
    [
      'the site value is stale, and its parts are fresh',
      'GOOD',
      { batteryPowerKw: STALE_MS, 'BESS-1/powerKw': 0, consumptionPowerKw: 0 },
      [BESS_1],
    ],
    [
      'the site value is stale, and a part is missing',
      'STALE',
      { batteryPowerKw: STALE_MS, 'BESS-1/powerKw': 0, consumptionPowerKw: 0 },
      [BESS_1, BESS_2],
    ],
    ['the consumption is metered', 'GOOD', { gridPowerKw: 0, 'METER-2/powerKw': 0 }, [HOUSE]],
    [
      'all known signals are shown by no field',
      'MISSING',
      { nonsense: 0, 'FVE-1/productionRegisterKwh': 0 },
      [FVE_1],
    ],
  ])('if %s: %s [C-4.5]', (_what, expected, ages, subDevices) => {
    expect(qualityOf(ages, subDevices)).toBe(expected);
  });
});
