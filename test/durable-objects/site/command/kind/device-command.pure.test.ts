/** The rules of a device command, per item: target, constraint, asset and fault, in this order [C-7.4]. */
import { describe, expect, it } from 'vitest';
import {
  chargeItem,
  codesOf,
  type FactsOptions,
  GATEWAY,
  judgeItems,
  siteView,
  subDevice,
  subsetsOf,
  textsOf,
} from '#workerd/site-view.ts';
import { deviceCommandKind } from '../../../../../durable-objects/site/command/kind/device-command.ts';
import type { DeviceCommandItem } from '../../../../../protocol/command.ts';
import { DEVICE_COMMAND_TYPES, type DeviceCommandType } from '../../../../../protocol/enums.ts';

const CHARGE_50 = { constraints: { maxChargeKw: 50 } };

describe('the target of an item', () => {
  const linked = subDevice('BESS-1', 'BESS', { linkedDeviceId: 'inverter-1' });
  const unknown = "BESS-1 is not in the site's topology";
  const unserved = 'no device serves BESS-1';
  const silent = 'BESS-1 is offline';
  const served = { subDevices: [linked], active: ['inverter-1'] };
  const inactive = { subDevices: [linked], active: [] };
  const mute = { ...served, offline: ['BESS-1'] };

  it.each<[string, string, FactsOptions]>([
    ['is not in the plant', unknown, { subDevices: [] }],
    ['is in the plant only in another letter case', unknown, { subDevices: [subDevice('bess-1', 'BESS')] }],
    ['has no serving device', unserved, { gatewayId: undefined }],
    ['is silent while its device is connected', silent, { offline: ['BESS-1'] }],
    ['is silent while its device is offline too', 'ok', { offline: ['BESS-1'], away: [GATEWAY] }],
    ['is not silent while its device is offline', 'ok', { away: [GATEWAY] }],
    ['sends, while another sub-device is silent', 'ok', { offline: ['BESS-2'] }],
    ['has a linked device while there is no gateway', 'ok', { ...served, gatewayId: undefined }],
    ['has an inactive linked device and no gateway', unserved, { ...inactive, gatewayId: undefined }],
    ['has an inactive linked device and a gateway', 'ok', inactive],
    ['is silent while its linked device is connected', silent, { ...mute, away: [GATEWAY] }],
    ['is silent while its linked device is offline', 'ok', { ...mute, away: ['inverter-1'] }],
  ])('an item whose target %s gets the result: %s [C-7.4]', (_what, expected, options) => {
    expect(textsOf([chargeItem(5)], options)).toEqual([expected]);
    expect(codesOf([chargeItem(5)], options)).toEqual([expected === 'ok' ? 'ok' : 'DEVICE_OFFLINE']);
  });
});

describe('the constraint of an item', () => {
  const limitOf: Record<DeviceCommandType, 'maxChargeKw' | 'maxDischargeKw' | undefined> = {
    BESS_CHARGE: 'maxChargeKw',
    BESS_CHARGE_ONLY: 'maxChargeKw',
    BESS_CONTINUOUS_CHARGE: 'maxChargeKw',
    BESS_DISCHARGE: 'maxDischargeKw',
    BESS_DISCHARGE_ONLY: 'maxDischargeKw',
    BESS_STOP: undefined,
    FVE_PRODUCE_MAX: undefined,
    FVE_REDUCE_PERCENT: undefined,
    FVE_REDUCE_POWER: undefined,
    FVE_STOP: undefined,
  };

  it.each(DEVICE_COMMAND_TYPES)(
    '%s is limited by the limit of its own direction, if it has one, and by no other [C-7.4]',
    (command) => {
      const isBattery = command.startsWith('BESS_');
      const target = isBattery ? { deviceId: 'BESS-1' } : ({ deviceId: 'FVE-1', assetType: 'FVE' } as const);
      const item = chargeItem(1_000, { ...target, command });
      for (const name of ['maxChargeKw', 'maxDischargeKw', 'maxImportKw', 'maxExportKw'] as const) {
        const expected = name === limitOf[command] ? ['CONSTRAINT_VIOLATION'] : ['ok'];
        expect([name, codesOf([item], { constraints: { [name]: 50 } })]).toEqual([name, expected]);
        expect([name, codesOf([item], { hardLimits: { [name]: 50 } })]).toEqual([name, expected]);
      }
    },
  );

  const at = (powerKw: number, options: FactsOptions) =>
    judgeItems([chargeItem(powerKw)], options).items[0]?.refusal;

  it.each<[number, FactsOptions]>([
    [50, CHARGE_50],
    [50, { hardLimits: { maxChargeKw: 50 } }],
    [0, { constraints: { maxChargeKw: 0 } }],
    [1e9, { constraints: null, hardLimits: null }],
    [1e9, { constraints: {}, hardLimits: {} }],
  ])('a charge of %d kW passes under the limits %j [C-7.4]', (powerKw, options) => {
    expect(at(powerKw, options)).toBeUndefined();
  });

  it.each<[number, FactsOptions, string, number]>([
    [50.000001, CHARGE_50, 'maxChargeKw', 50],
    [0.1, { constraints: { maxChargeKw: 0 } }, 'maxChargeKw', 0],
    [51, { hardLimits: { maxChargeKw: 50 } }, 'hardLimits.maxChargeKw', 50],
    [51, { constraints: { maxChargeKw: 60 }, hardLimits: { maxChargeKw: 50 } }, 'hardLimits.maxChargeKw', 50],
    [61, { constraints: { maxChargeKw: 60 }, hardLimits: { maxChargeKw: 50 } }, 'maxChargeKw', 60],
  ])(
    'a charge of %d kW is rejected under the limits %j with the name, value and unit of the limit [C-8.3]',
    (value, options, constraint, limit) => {
      expect(at(value, options)).toEqual({
        rejectionCode: 'CONSTRAINT_VIOLATION',
        message: `BESS-1: ${value} kW exceeds ${constraint} ${limit} kW`,
        violation: { constraint, limit, value, unit: 'kW', deviceId: 'BESS-1' },
      });
    },
  );

  it('an item without powerKw counts with the rated power of its asset, whatever other parameters it has [C-7.4]', () => {
    const limit39 = { constraints: { maxChargeKw: 39 } };
    expect(textsOf([chargeItem()], limit39)).toEqual(['BESS-1: 40 kW exceeds maxChargeKw 39 kW']);
    const percent = chargeItem(undefined, { params: { percent: 1, respectLimits: true } });
    expect(codesOf([percent], limit39)).toEqual(['CONSTRAINT_VIOLATION']);
    expect(codesOf([chargeItem(39)], limit39)).toEqual(['ok']);
    expect(codesOf([chargeItem(0)], { constraints: { maxChargeKw: 0 } })).toEqual(['ok']);
  });

  it('an item without powerKw needs no rated power where its direction has no limit [C-7.4]', () => {
    const unrated = chargeItem(undefined, { deviceId: 'BESS-3' });
    expect(codesOf([unrated], { constraints: { maxDischargeKw: 1 } })).toEqual(['ok']);
  });

  it('an item with neither powerKw nor rated power is INVALID_PAYLOAD under a limit [C-7.4]', () => {
    const unrated = chargeItem(undefined, { deviceId: 'BESS-3' });
    expect(codesOf([unrated], CHARGE_50)).toEqual(['INVALID_PAYLOAD']);
    expect(codesOf([unrated], { hardLimits: { maxChargeKw: 50 } })).toEqual(['INVALID_PAYLOAD']);
    expect(codesOf([chargeItem(0, { deviceId: 'BESS-3' })], CHARGE_50)).toEqual(['ok']);
  });

  it('a constraint applies if respectLimits is true and if it is false [C-7.4]', () => {
    for (const respectLimits of [true, false]) {
      const item = chargeItem(undefined, { params: { powerKw: 51, respectLimits } });
      expect(codesOf([item], CHARGE_50)).toEqual(['CONSTRAINT_VIOLATION']);
    }
  });
});

describe('the asset of an item', () => {
  const METER = { deviceId: 'METER-1', assetType: 'METER' } as const;

  it.each<[string, string, Partial<DeviceCommandItem>]>([
    ['another asset type than in the topology', 'BESS-1 is a BESS, not a FVE', { assetType: 'FVE' }],
    ['a command for another asset type', 'FVE_STOP is not for a BESS', { command: 'FVE_STOP' }],
    ['both errors', 'BESS-1 is a BESS, not a FVE', { assetType: 'FVE', command: 'FVE_STOP' }],
    ['a battery command for a meter', 'BESS_CHARGE is not for a METER', METER],
    ['a command for its own asset type', 'ok', { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' }],
  ])('an item with %s gets the result: %s [C-7.4]', (_what, expected, changes) => {
    expect(textsOf([chargeItem(5, changes)])).toEqual([expected]);
    expect(codesOf([chargeItem(5, changes)])).toEqual([expected === 'ok' ? 'ok' : 'INVALID_COMMAND']);
  });
});

describe('the fault of an item', () => {
  it('an item whose asset is in fault is DEVICE_FAULT, and the other items pass [C-7.4]', () => {
    const items = [chargeItem(5), chargeItem(5, { deviceId: 'BESS-2' })];
    expect(textsOf(items, { inFault: ['BESS-1', 'FVE-1'] })).toEqual(['BESS-1 reports a fault', 'ok']);
    expect(codesOf(items, { inFault: ['BESS-1'] })).toEqual(['DEVICE_FAULT', 'ok']);
  });
});

describe('the checks of an item', () => {
  const breaks = [
    ['target', 'DEVICE_OFFLINE'],
    ['constraint', 'CONSTRAINT_VIOLATION'],
    ['asset', 'INVALID_COMMAND'],
    ['fault', 'DEVICE_FAULT'],
  ] as const;

  it.each(
    subsetsOf(breaks).map((broken) => [broken.map(([name]) => name).join(', ') || 'none', broken] as const),
  )(
    'an item with these errors (%s) has the code of the first error and the texts of all [C-7.4]',
    (_names, broken) => {
      const isBroken = (name: string) => broken.some(([known]) => known === name);
      const item = chargeItem(isBroken('constraint') ? 51 : 5, isBroken('asset') ? { assetType: 'FVE' } : {});
      const options: FactsOptions = {
        ...CHARGE_50,
        offline: isBroken('target') ? ['BESS-1'] : [],
        inFault: isBroken('fault') ? ['BESS-1'] : [],
      };
      expect(codesOf([item], options)).toEqual([broken[0]?.[1] ?? 'ok']);
      const words = {
        target: 'BESS-1 is offline',
        constraint: 'BESS-1: 51 kW exceeds maxChargeKw 50 kW',
        asset: 'BESS-1 is a BESS, not a FVE',
        fault: 'BESS-1 reports a fault',
      };
      expect(textsOf([item], options)).toEqual([broken.map(([name]) => words[name]).join('; ') || 'ok']);
      const [judged] = judgeItems([item], options).items;
      // A violation, which raises an alarm, is reported only if the constraint is the first error.
      expect(judged?.refusal?.violation !== undefined).toBe(broken[0]?.[0] === 'constraint');
    },
  );

  it('an item for a sub-device that the plant does not have needs no rated power [C-7.4]', () => {
    const item = chargeItem(undefined, { deviceId: 'BESS-9' });
    expect(textsOf([item], CHARGE_50)).toEqual(["BESS-9 is not in the site's topology"]);
  });

  it('an item that exceeds a limit and repeats a deviceId is rejected with the texts of both errors [C-7.4]', () => {
    const texts = textsOf([chargeItem(5), chargeItem(51)], CHARGE_50);
    expect(texts).toEqual(['ok', 'BESS-1: 51 kW exceeds maxChargeKw 50 kW; BESS-1 is named twice']);
  });

  it('come before the check for a repeated deviceId, which comes before the check of the sums [C-7.4]', () => {
    const items = [chargeItem(30), chargeItem(51), chargeItem(30), chargeItem(20, { deviceId: 'BESS-2' })];
    expect(codesOf(items, CHARGE_50)).toEqual(['ok', 'CONSTRAINT_VIOLATION', 'INVALID_COMMAND', 'ok']);
  });
});

describe('a queued device command', () => {
  const waiting = {
    deviceId: GATEWAY,
    action: 'BESS_CHARGE',
    payloadText: '{"targets":[{"deviceId":"BESS-1"}]}',
  };
  const codeOf = (options: FactsOptions, isSent: boolean) =>
    deviceCommandKind.recheck({ commands: [chargeItem(5)] }, waiting, siteView(options), isSent)
      ?.rejectionCode;

  it.each<[string, string | undefined, string | undefined, FactsOptions]>([
    ['fits', undefined, undefined, {}],
    ['has a silent target', 'DEVICE_OFFLINE', 'DEVICE_OFFLINE', { offline: ['BESS-1'] }],
    ['breaks a limit', 'CONSTRAINT_VIOLATION', 'CONSTRAINT_VIOLATION', { constraints: { maxChargeKw: 4 } }],
    [
      'is for another asset now',
      'INVALID_COMMAND',
      'INVALID_COMMAND',
      { subDevices: [subDevice('BESS-1', 'FVE')] },
    ],
    ['has a target in fault', undefined, 'DEVICE_FAULT', { inFault: ['BESS-1'] }],
  ])('%s: gets %s while it waits, and %s when it is sent [C-7.6]', (_what, waits, sent, options) => {
    expect([codeOf(options, false), codeOf(options, true)]).toEqual([waits, sent]);
  });
});
