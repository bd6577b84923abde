/**
 * The canonical payload: site values if they are sent, or else computed from sub-devices by asset type
 * [C-3.13].
 */
import { describe, expect, it } from 'vitest';
import { NO_TELEMETRY, subDevice } from '#workerd/site-view.ts';
import {
  canonicalTelemetry,
  controllablePower,
} from '../../../../durable-objects/site/telemetry/canonical.ts';
import { Snapshot } from '../../../../durable-objects/site/telemetry/snapshot.ts';
import { ASSET_TYPES, type AssetType, OPERATING_MODES } from '../../../../protocol/enums.ts';
import { type CanonicalTelemetry, canonicalTelemetry as schema } from '../../../../protocol/telemetry.ts';
import type { SubDevice } from '../../../../registry/plant-copy.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');

const GRID = subDevice('METER-1', 'METER', { meterRole: 'GRID' });
const HOUSE = subDevice('METER-2', 'METER', { meterRole: 'CONSUMPTION' });
const GRID_2 = { ...GRID, externalId: 'METER-9' };
const HOUSE_2 = { ...HOUSE, externalId: 'METER-9' };
const BESS_1 = subDevice('BESS-1', 'BESS', { capacityKwh: 100 });
const BESS_2 = subDevice('BESS-2', 'BESS', { capacityKwh: 300 });
const FVE_1 = subDevice('FVE-1', 'FVE');
const FVE_2 = subDevice('FVE-2', 'FVE');
const INVERTER = subDevice('INV-1', 'INVERTER');

/** The payload of a plant with these sub-devices and values of the given age. */
function canonical(
  values: Record<string, number>,
  subDevices: readonly SubDevice[] = [],
  ageMs = 0,
): CanonicalTelemetry {
  const atMs = NOW_MS - ageMs;
  const samples = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value, atMs }]));
  const payload = canonicalTelemetry(new Snapshot(() => true, samples), subDevices, 'STANDARD', NOW_MS);
  expect(schema.safeParse(payload).error).toBeUndefined();
  return payload;
}

describe('a plant without data', () => {
  it('has null for each number, and the quality MISSING [C-4.1]', () => {
    expect(canonical({})).toStrictEqual(NO_TELEMETRY);
    expect(canonical({}, [GRID, HOUSE, BESS_1, FVE_1])).toStrictEqual(NO_TELEMETRY);
  });
});

describe('a value of the site', () => {
  const site = {
    gridPowerKw: -1,
    fvePowerKw: 2,
    batteryPowerKw: -3,
    consumptionPowerKw: 4,
    socPercent: 50,
    availableBatteryEnergyKwh: 6,
    batteryTemperatureCelsius: -7,
  };
  const parts = {
    'METER-1/powerKw': 101,
    'METER-2/powerKw': 102,
    'FVE-1/powerKw': 103,
    'BESS-1/powerKw': 104,
    'BESS-1/socPercent': 99,
    'BESS-1/availableCapacityKwh': 105,
    'BESS-1/temperatureCelsius': 106,
  };
  const everything = [GRID, HOUSE, FVE_1, BESS_1];

  it.each(Object.keys(site) as (keyof typeof site)[])(
    'the site value %s replaces the value computed from sub-devices, and no other value [C-3.13]',
    (name) => {
      const derived = canonical(parts, everything);
      const { devices: _devices, ...expected } = { ...derived, [name]: site[name] };
      expect(canonical({ ...parts, [name]: site[name] }, everything)).toMatchObject(expected);
      expect(derived[name]).not.toBe(site[name]);
    },
  );

  it.each(Object.keys(site) as (keyof typeof site)[])(
    'the site value %s replaces the value computed from sub-devices even if it is 0 [C-3.13]',
    (name) => {
      expect(canonical({ ...parts, [name]: 0 }, everything)[name]).toBe(0);
    },
  );

  it('site values are shown even if the plant has no sub-device [C-3.13]', () => {
    expect(canonical(site)).toStrictEqual({ ...NO_TELEMETRY, ...site, dataQuality: 'GOOD' });
  });
});

describe('a sum', () => {
  it.each<[string, keyof CanonicalTelemetry, SubDevice[], string, [number, number], number]>([
    ['grid meters', 'gridPowerKw', [GRID, GRID_2], 'powerKw', [5, -7], -2],
    ['PV plants', 'fvePowerKw', [FVE_1, FVE_2], 'powerKw', [5, 7], 12],
    ['a PV plant and an inverter', 'fvePowerKw', [FVE_1, INVERTER], 'powerKw', [5, 7], 12],
    ['batteries', 'batteryPowerKw', [BESS_1, BESS_2], 'powerKw', [5, -7], -2],
    ['consumption meters', 'consumptionPowerKw', [HOUSE, HOUSE_2], 'powerKw', [5, 7], 12],
    ['stored energy', 'availableBatteryEnergyKwh', [BESS_1, BESS_2], 'availableCapacityKwh', [5, 7], 12],
  ])(
    'the sum of %s includes all sub-devices, and is null if one of them sent no value [C-3.13]',
    (_what, name, subDevices, signal, values, expected) => {
      const parts = subDevices.map(({ externalId }, index) => [
        `${externalId}/${signal}`,
        values[index] ?? 0,
      ]);
      expect(canonical(Object.fromEntries(parts), subDevices)[name]).toBe(expected);
      for (const [index, part] of parts.entries()) {
        const other = `${subDevices[1 - index]?.externalId}/regulationPercent`;
        expect(canonical(Object.fromEntries([part]), subDevices)[name]).toBeNull();
        expect(canonical(Object.fromEntries([part, [other, 1]]), subDevices)[name]).toBeNull();
      }
    },
  );

  it('includes for PV or battery power only sub-devices of its asset types [C-3.13]', () => {
    const sums: Partial<Record<AssetType, string>> = {
      BESS: 'batteryPowerKw',
      FVE: 'fvePowerKw',
      INVERTER: 'fvePowerKw',
    };
    for (const assetType of ASSET_TYPES) {
      const payload = canonical({ 'ONE/powerKw': 5 }, [subDevice('ONE', assetType)]);
      const { gridPowerKw, fvePowerKw, batteryPowerKw } = payload;
      const expected = { gridPowerKw: null, fvePowerKw: null, batteryPowerKw: null };
      const sum = sums[assetType];
      const named = sum ? { [sum]: 5 } : {};
      expect([assetType, { gridPowerKw, fvePowerKw, batteryPowerKw }]).toEqual([
        assetType,
        { ...expected, ...named },
      ]);
    }
  });

  it('excludes for grid power meters with another role, and assets that are not meters [C-2.2]', () => {
    for (const meterRole of ['FVE', 'BESS'] as const) {
      const payload = canonical({ 'ONE/powerKw': 5 }, [subDevice('ONE', 'METER', { meterRole })]);
      expect([payload.gridPowerKw, payload.consumptionPowerKw]).toEqual([null, null]);
    }
    const pump = canonical({ 'ONE/powerKw': 5 }, [subDevice('ONE', 'HEAT_PUMP', { meterRole: 'GRID' })]);
    expect(pump.gridPowerKw).toBeNull();
  });

  it('includes only sub-devices of the plant [C-3.13]', () => {
    expect(canonical({ 'BESS-9/powerKw': 5 }, [BESS_1])).toMatchObject({ batteryPowerKw: null });
  });

  it('has at most six decimals [C-3.7]', () => {
    expect(canonical({ 'FVE-1/powerKw': 0.1, 'FVE-2/powerKw': 0.2 }, [FVE_1, FVE_2]).fvePowerKw).toBe(0.3);
  });
});

describe('consumption', () => {
  it.each<[string, Record<string, number>, SubDevice[], number | null]>([
    ['the site value', { consumptionPowerKw: 1, gridPowerKw: 5, 'METER-2/powerKw': 7 }, [HOUSE], 1],
    [
      'the sum of the consumption meters if there is no site value',
      { gridPowerKw: 5, 'METER-2/powerKw': 7 },
      [HOUSE],
      7,
    ],
    ['the grid power if nothing else is known', { gridPowerKw: 5 }, [], 5],
    ['grid + PV', { gridPowerKw: -5, fvePowerKw: 20 }, [], 15],
    ['grid − battery', { gridPowerKw: 5, batteryPowerKw: 3 }, [], 2],
    ['grid − battery while the battery discharges', { gridPowerKw: 5, batteryPowerKw: -3 }, [], 8],
    ['grid + PV − battery', { gridPowerKw: -12, fvePowerKw: 20, batteryPowerKw: -5 }, [], 13],
    [
      'the balance of the sums of sub-devices',
      { 'METER-1/powerKw': -12, 'FVE-1/powerKw': 20, 'BESS-1/powerKw': -5 },
      [GRID, FVE_1, BESS_1],
      13,
    ],
    [
      'the balance with the production of an inverter',
      { 'METER-1/powerKw': -15, 'INV-1/powerKw': 20 },
      [GRID, INVERTER],
      5,
    ],
    ['null if an inverter of the plant sends nothing', { gridPowerKw: 5 }, [INVERTER], null],
    ['null without the grid', { fvePowerKw: 20, batteryPowerKw: 5 }, [], null],
    ['null if a PV of the plant sends nothing', { gridPowerKw: 5 }, [FVE_1], null],
    ['null if a battery of the plant sends nothing', { gridPowerKw: 5 }, [BESS_1], null],
    ['null if one PV of two sends nothing', { gridPowerKw: 5, 'FVE-1/powerKw': 1 }, [FVE_1, FVE_2], null],
    ['null if one grid meter of two sends nothing', { 'METER-1/powerKw': 5 }, [GRID, GRID_2], null],
    ['the balance if a site value replaces a PV', { gridPowerKw: 5, fvePowerKw: 2 }, [FVE_1, FVE_2], 7],
    ['rounded to six decimals', { gridPowerKw: 0.1, fvePowerKw: 0.2 }, [], 0.3],
  ])('is %s [C-3.13]', (_what, values, subDevices, expected) => {
    expect(canonical(values, subDevices).consumptionPowerKw).toBe(expected);
  });
});

describe('the power of the controllable assets', () => {
  const PUMP = subDevice('PUMP-1', 'HEAT_PUMP');
  const CHARGER = subDevice('EV-1', 'EV_CHARGER');
  const all = { 'BESS-1/powerKw': 3, 'FVE-1/powerKw': 20, 'PUMP-1/powerKw': 4, 'EV-1/powerKw': 5 };

  it.each<[string, Record<string, number>, SubDevice[], number | null]>([
    ['what consumers take less what PV gives', all, [BESS_1, FVE_1, PUMP, CHARGER], -8],
    ['less what an inverter gives', { 'INV-1/powerKw': 20, 'EV-1/powerKw': 5 }, [INVERTER, CHARGER], -15],
    ['less what PV and an inverter give', { 'INV-1/powerKw': 20, ...all }, [INVERTER, FVE_1], -40],
    ['less the PV power of the site if an inverter sends nothing', { fvePowerKw: 7 }, [INVERTER], -7],
    ['null if an inverter sends nothing', { 'FVE-1/powerKw': 20 }, [FVE_1, INVERTER], null],
    ['null without controllable assets', { 'METER-1/powerKw': 20 }, [GRID, HOUSE], null],
  ])('is %s [C-7.8]', (_what, values, subDevices, expected) => {
    const samples = Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, { value, atMs: NOW_MS }]),
    );
    expect(controllablePower(new Snapshot(() => true, samples), subDevices, NOW_MS)).toBe(expected);
  });
});

describe('the state of several batteries', () => {
  const unknown = (n: number) => subDevice(`BESS-${n}`, 'BESS');

  it.each<[string, SubDevice[], number[], number | null]>([
    ['that of the only battery', [BESS_1], [40], 40],
    ['that of the only battery even if it is 0', [BESS_1], [0], 0],
    ['weighted by capacity', [BESS_1, BESS_2], [40, 80], 70],
    ['weighted equally if no capacity is known', [unknown(1), unknown(2)], [40, 80], 60],
    ['rounded to six decimals', [unknown(1), unknown(2), unknown(3)], [40, 40, 41], 40.333333],
    ['null if none is sent', [BESS_1, BESS_2], [], null],
  ])('the state of charge of the batteries is %s [C-4.5]', (_what, batteries, percents, expected) => {
    const sent = percents.map((percent, index) => [`BESS-${index + 1}/socPercent`, percent]);
    expect(canonical({ 'BESS-1/powerKw': 1, ...Object.fromEntries(sent) }, batteries).socPercent).toBe(
      expected,
    );
  });

  it('the temperature of several batteries is the highest, below zero too [C-4.5]', () => {
    const values = { 'BESS-1/temperatureCelsius': -20, 'BESS-2/temperatureCelsius': -7 };
    expect(canonical(values, [BESS_1, BESS_2]).batteryTemperatureCelsius).toBe(-7);
    expect(canonical(values, [BESS_1]).batteryTemperatureCelsius).toBe(-20);
    expect(
      canonical({ 'FVE-1/temperatureCelsius': 90 }, [BESS_1, FVE_1]).batteryTemperatureCelsius,
    ).toBeNull();
  });
});

describe('the samples of the sub-devices', () => {
  it('the device samples are those with a power, in the order of the plant, each with its values (spec: Device sample)', () => {
    const values = {
      'FVE-1/powerKw': 0,
      'FVE-1/regulationPercent': 60,
      'FVE-1/fault': 0,
      'FVE-1/productionRegisterKwh': 9,
      'BESS-1/powerKw': -5,
      'BESS-1/socPercent': 55,
      'BESS-1/availableCapacityKwh': 40,
      'BESS-1/temperatureCelsius': 21,
      'BESS-2/socPercent': 1,
      'BESS-9/powerKw': 1,
    };
    expect(canonical(values, [FVE_1, BESS_1, BESS_2]).devices).toStrictEqual([
      { deviceId: 'FVE-1', assetType: 'FVE', powerKw: 0, regulationPercent: 60 },
      {
        deviceId: 'BESS-1',
        assetType: 'BESS',
        powerKw: -5,
        availableCapacityKwh: 40,
        socPercent: 55,
        temperatureCelsius: 21,
      },
    ]);
  });

  it('the payload has no devices field if no sub-device sent a power (spec: Canonical telemetry payload)', () => {
    expect(canonical({ 'BESS-1/powerKw': 1 }, [BESS_1]).devices).toHaveLength(1);
    expect(canonical({ gridPowerKw: 1 }, [BESS_1])).not.toHaveProperty('devices');
  });
});

describe('the mode', () => {
  it.each(OPERATING_MODES)(
    'the payload has the mode in force, %s (spec: Canonical telemetry payload)',
    (mode) => {
      expect(canonicalTelemetry(new Snapshot(() => true), [], mode, NOW_MS).currentOperatingMode).toBe(mode);
    },
  );
});
