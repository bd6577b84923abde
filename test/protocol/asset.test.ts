/**
 * The one table of asset kinds: the commands of each, their parameters, their limit, and the signals that
 * identify the kind.
 */
import { describe, expect, it } from 'vitest';
import {
  ASSETS,
  assetTypeOf,
  deviceCommandRule,
  EXPORTING,
  MODE_NEEDS,
  SUB_DEVICE_SIGNALS,
  supportedDeviceCommands,
} from '../../protocol/asset.ts';
import { ASSET_TYPES, type AssetType, DEVICE_COMMAND_TYPES, OPERATING_MODES } from '../../protocol/enums.ts';
import { SITE_SIGNALS } from '../../protocol/telemetry.ts';

/** No kind, all kinds, each kind by itself, and all except each. */
const CHOICES: AssetType[][] = [
  [],
  [...ASSET_TYPES],
  ...ASSET_TYPES.map((type) => [type]),
  ...ASSET_TYPES.map((type) => ASSET_TYPES.filter((other) => other !== type).reverse()),
];

describe('a device command', () => {
  it.each(DEVICE_COMMAND_TYPES)(
    '%s is for exactly one asset kind, which is the first part of its name [C-7.4]',
    (command) => {
      const kinds = ASSET_TYPES.filter((type) => ASSETS[type].commands[command] !== undefined);
      expect(kinds).toEqual([command.split('_')[0]]);
      expect(assetTypeOf(command)).toBe(kinds[0]);
    },
  );

  it('is in the table if and only if the spec lists it; a lookup of any other command throws (spec: Enumerations)', () => {
    const commands = ASSET_TYPES.flatMap((type) => Object.keys(ASSETS[type].commands));
    expect(commands.sort()).toEqual([...DEVICE_COMMAND_TYPES].sort());
    expect(() => assetTypeOf('REBOOT' as 'FVE_STOP')).toThrow('REBOOT');
  });

  it.each(ASSET_TYPES.filter((type) => type !== 'BESS' && type !== 'FVE'))(
    'does not exist for the asset kind %s (spec: Plant summary)',
    (type) => {
      expect(ASSETS[type].commands).toEqual({});
      expect(supportedDeviceCommands([type])).toEqual([]);
    },
  );

  it.each(DEVICE_COMMAND_TYPES)(
    '%s requires percent or powerKw if it reduces to that value, and otherwise no parameter [C-7.4]',
    (command) => {
      const needs = { FVE_REDUCE_PERCENT: 'percent', FVE_REDUCE_POWER: 'powerKw' } as Record<string, string>;
      expect(deviceCommandRule(command).required).toBe(needs[command]);
    },
  );

  it.each(DEVICE_COMMAND_TYPES)(
    '%s has the limit of its direction, charge or discharge, and no limit without a direction [C-7.4]',
    (command) => {
      const limits: Record<string, string> = {
        BESS_CHARGE: 'maxChargeKw',
        BESS_CHARGE_ONLY: 'maxChargeKw',
        BESS_CONTINUOUS_CHARGE: 'maxChargeKw',
        BESS_DISCHARGE: 'maxDischargeKw',
        BESS_DISCHARGE_ONLY: 'maxDischargeKw',
      };
      expect(deviceCommandRule(command).limit).toBe(limits[command]);
    },
  );
});

describe('the commands of a plant', () => {
  it.each([
    [[], []],
    [['METER', 'HEAT_PUMP', 'INVERTER'], []],
    [['FVE'], ['FVE_PRODUCE_MAX', 'FVE_REDUCE_PERCENT', 'FVE_REDUCE_POWER', 'FVE_STOP']],
    [
      ['BESS', 'BESS'],
      [
        'BESS_CHARGE',
        'BESS_DISCHARGE',
        'BESS_STOP',
        'BESS_CHARGE_ONLY',
        'BESS_DISCHARGE_ONLY',
        'BESS_CONTINUOUS_CHARGE',
      ],
    ],
    [['BESS', 'METER', 'FVE'], [...DEVICE_COMMAND_TYPES]],
  ] as [AssetType[], string[]][])(
    "are, with the assets %j, %j, each once, in the spec's order (spec: Plant summary)",
    (types, commands) => {
      expect(supportedDeviceCommands(types)).toEqual(commands);
    },
  );

  it('do not depend on the order of its assets (spec: Plant summary)', () => {
    for (const types of CHOICES) {
      const expected = DEVICE_COMMAND_TYPES.filter((command) => types.includes(assetTypeOf(command)));
      expect(supportedDeviceCommands(types)).toEqual(expected);
      expect(supportedDeviceCommands([...types, ...types].reverse())).toEqual(expected);
    }
  });
});

describe('an asset kind', () => {
  it.each(ASSET_TYPES)(
    '%s has only signals of the common list, each once, and always powerKw and fault [C-3.13]',
    (type) => {
      const { signals } = ASSETS[type];
      expect(SUB_DEVICE_SIGNALS).toEqual(expect.arrayContaining([...signals]));
      expect(new Set(signals).size).toBe(signals.length);
      expect(signals).toEqual(expect.arrayContaining(['powerKw', 'fault']));
    },
  );

  it('can have exactly the signals that the contract lists [C-3.13]', () => {
    expect([...SUB_DEVICE_SIGNALS].sort()).toEqual(
      [
        'powerKw',
        'socPercent',
        'availableCapacityKwh',
        'regulationPercent',
        'temperatureCelsius',
        'fault',
        'chargeRegisterKwh',
        'consumptionRegisterKwh',
        'dischargeRegisterKwh',
        'exportRegisterKwh',
        'importRegisterKwh',
        'productionRegisterKwh',
      ].sort(),
    );
  });

  it('has the meter role of what its meter measures; GENERIC has none [C-2.2]', () => {
    const roles = Object.fromEntries(ASSET_TYPES.map((type) => [type, ASSETS[type].meterRole]));
    expect(roles).toEqual({
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

  it('has its power summed into a value of the site only if it is BESS, FVE or INVERTER [C-3.13]', () => {
    const sums = ASSET_TYPES.flatMap((type) => (ASSETS[type].sumsTo ? [[type, ASSETS[type].sumsTo]] : []));
    expect(sums).toEqual([
      ['BESS', 'batteryPowerKw'],
      ['FVE', 'fvePowerKw'],
      ['INVERTER', 'fvePowerKw'],
    ]);
    for (const [, signal] of sums) expect(SITE_SIGNALS).toContain(signal);
  });
});

describe('a mode', () => {
  it.each(OPERATING_MODES)(
    '%s requires one of the asset kinds that the contract lists for it, if it lists any [C-7.4]',
    (mode) => {
      const gives = ['FVE', 'INVERTER', 'BESS'];
      const needs: Record<string, string[]> = {
        ZERO_EXPORT: gives,
        MAX_EXPORT: gives,
        PEAK_SHAVING: ['BESS'],
        GRID_TARGET: ['BESS'],
        LDS_SUPPORT: ['BESS'],
      };
      expect(MODE_NEEDS[mode]).toEqual(needs[mode]);
      expect(EXPORTING).toEqual(gives);
    },
  );
});
