/** Meter readings: the registers of a plant's meters at a moment, and their quality [C-4.5], [C-4.6]. */
import { describe, expect, it } from 'vitest';
import { subDevice } from '#workerd/site-view.ts';
import { type LastValue, meterReading } from '../../../../durable-objects/site/telemetry/meter.ts';
import { REGISTERS } from '../../../../protocol/asset.ts';
import { ASSET_TYPES } from '../../../../protocol/enums.ts';
import { meterReading as schema } from '../../../../protocol/meter.ts';
import type { SubDevice } from '../../../../registry/plant-copy.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');
const MINUTE = 60_000;
const GRID = subDevice('METER-1', 'METER', { meterRole: 'GRID' });
const BATTERY = subDevice('BESS-1', 'BESS', { meterRole: 'BESS' });
const IMPORT = 'METER-1/importRegisterKwh';
const EXPORT = 'METER-1/exportRegisterKwh';
const CHARGE = 'BESS-1/chargeRegisterKwh';

/** By metric: the age, the total, and whether the total is computed. */
type Ages = Record<string, readonly [ageMs: number, total?: number, isComputed?: boolean]>;

function readingOf(ages: Ages, subDevices: readonly SubDevice[] = [GRID, BATTERY]) {
  const latest = (metric: string): LastValue | undefined => {
    const own = Object.hasOwn(ages, metric) ? ages[metric] : undefined;
    return own && { atMs: NOW_MS - own[0], total: own[1] ?? 1, isComputed: own[2] ?? false };
  };
  const reading = meterReading(subDevices, latest, NOW_MS);
  if (reading) expect(schema.parse(reading)).toEqual(reading);
  return reading;
}

describe('a meter reading', () => {
  it('lists each known meter with its role and its registers, dated at the read [spec: Meter state]', () => {
    const ages: Ages = { [EXPORT]: [1, 7.25], [IMPORT]: [2, 1_000], [CHARGE]: [3, 0] };
    expect(readingOf(ages)).toEqual({
      readingAt: '2030-03-05T09:00:00.000Z',
      meters: [
        { deviceId: 'METER-1', role: 'GRID', importRegisterKwh: 1_000, exportRegisterKwh: 7.25 },
        { deviceId: 'BESS-1', role: 'BESS', chargeRegisterKwh: 0 },
      ],
      dataQuality: 'GOOD',
    });
  });

  it('has all six registers of one meter, for any asset type [spec: Meter state]', () => {
    const ages = Object.fromEntries(REGISTERS.map((name, index) => [`X/${name}`, [0, index] as const]));
    for (const assetType of ASSET_TYPES) {
      const [meter] =
        readingOf(ages, [subDevice('X', assetType, { meterRole: 'CONSUMPTION' })])?.meters ?? [];
      expect(meter).toEqual({
        deviceId: 'X',
        role: 'CONSUMPTION',
        ...Object.fromEntries(REGISTERS.map((name, index) => [name, index])),
      });
    }
  });

  it('derives the role from the asset type if the registry has none [C-2.2]', () => {
    const roles = ASSET_TYPES.map((assetType) => {
      const ages: Ages = { 'X/consumptionRegisterKwh': [0] };
      return [assetType, readingOf(ages, [subDevice('X', assetType)])?.meters[0]?.role ?? null];
    });
    expect(Object.fromEntries(roles)).toEqual({
      BESS: 'BESS',
      FVE: 'FVE',
      METER: 'GRID',
      HEAT_PUMP: 'CONSUMPTION',
      EV_CHARGER: 'CONSUMPTION',
      THERMOSTAT: 'CONSUMPTION',
      INVERTER: 'FVE',
      GENERIC: null,
    });
  });

  it('omits meters without a role, registers never sent, and registers of no sub-device [spec: Meter state]', () => {
    const generic = subDevice('GEN-1', 'GENERIC');
    const ages: Ages = {
      'GEN-1/productionRegisterKwh': [0],
      importRegisterKwh: [0],
      'METER-9/importRegisterKwh': [0],
      'METER-1/powerKw': [0],
    };
    expect(readingOf(ages, [generic, GRID])).toBeNull();
    expect(readingOf({ ...ages, [IMPORT]: [0] }, [generic, GRID])?.meters).toEqual([
      { deviceId: 'METER-1', role: 'GRID', importRegisterKwh: 1 },
    ]);
  });

  it('includes the production register of an inverter [spec: Meter state]', () => {
    const ages: Ages = { 'INV-1/productionRegisterKwh': [0, 12] };
    expect(readingOf(ages, [subDevice('INV-1', 'INVERTER')])?.meters).toEqual([
      { deviceId: 'INV-1', role: 'FVE', productionRegisterKwh: 12 },
    ]);
  });

  it('is null without sub-devices, and without any register [C-4.6]', () => {
    expect(readingOf({}, [])).toBeNull();
    expect(readingOf({})).toBeNull();
  });

  it('may use a register dated ahead, within the clock tolerance of devices [spec: Limits]', () => {
    expect(readingOf({ [IMPORT]: [-5 * MINUTE] })).toMatchObject({ dataQuality: 'GOOD' });
  });
});

describe('the quality of a meter reading', () => {
  const [OLD, GONE] = [5 * MINUTE, 15 * MINUTE];
  const COMPUTED = [0, 1, true] as const;

  it.each<[string, Ages, string | null]>([
    ['is GOOD if all registers are new', { [IMPORT]: [0], [CHARGE]: [0] }, 'GOOD'],
    ['is GOOD if the oldest is nearly 5 min old', { [IMPORT]: [OLD - 1], [CHARGE]: [0] }, 'GOOD'],
    ['is DEGRADED if one is 5 min old', { [IMPORT]: [OLD], [CHARGE]: [0] }, 'DEGRADED'],
    ['is DEGRADED if the only one is nearly 15 min old', { [IMPORT]: [GONE - 1] }, 'DEGRADED'],
    ['is absent, like the reading, if the only one is 15 min old', { [IMPORT]: [GONE] }, null],
    ['is absent if all are at least 15 min old', { [IMPORT]: [GONE], [EXPORT]: [50_000 * MINUTE] }, null],
    ['is GOOD if one is not shown and the others are new', { [IMPORT]: [GONE], [EXPORT]: [0] }, 'GOOD'],
    ['is GOOD if a meter is not shown and the others are new', { [IMPORT]: [GONE], [CHARGE]: [0] }, 'GOOD'],
    ['is ESTIMATED if one is computed', { [IMPORT]: COMPUTED, [CHARGE]: [0] }, 'ESTIMATED'],
    ['is ESTIMATED if one is computed, one is old', { [IMPORT]: COMPUTED, [CHARGE]: [OLD] }, 'ESTIMATED'],
    ['is ESTIMATED if one is computed and 5 min old', { [IMPORT]: [OLD, 1, true] }, 'ESTIMATED'],
    ['is GOOD if the computed one is not shown', { [IMPORT]: [GONE, 1, true], [CHARGE]: [0] }, 'GOOD'],
  ])('%s [C-4.6]', (_what, ages, expected) => {
    expect(readingOf(ages)?.dataQuality ?? null).toBe(expected);
  });

  it('ignores registers that it does not contain [C-4.6]', () => {
    const generic = subDevice('GEN-1', 'GENERIC');
    const ages: Ages = {
      [IMPORT]: [0],
      'GEN-1/productionRegisterKwh': [10 * MINUTE, 1, true],
      'METER-9/importRegisterKwh': [10 * MINUTE, 1, true],
    };
    expect(readingOf(ages, [GRID, generic])).toMatchObject({ dataQuality: 'GOOD' });
  });

  it('a meter reading omits a register that is too old, and its meter if it has no other [C-4.6]', () => {
    const ages: Ages = { [IMPORT]: [15 * MINUTE], [EXPORT]: [15 * MINUTE - 1, 3], [CHARGE]: [15 * MINUTE] };
    expect(readingOf(ages)?.meters).toEqual([{ deviceId: 'METER-1', role: 'GRID', exportRegisterKwh: 3 }]);
  });
});
