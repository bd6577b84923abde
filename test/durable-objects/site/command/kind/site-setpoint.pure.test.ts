/** The rules of a site setpoint: target, constraint, topology, window, log columns, MQTT command and end. */
import { describe, expect, it } from 'vitest';
import {
  EXPORT,
  energy,
  type FactsOptions,
  GATEWAY,
  judgeBy,
  power,
  siteView,
  subDevice,
  subsetsOf,
} from '#workerd/site-view.ts';
import type { Waiting } from '../../../../../durable-objects/site/command/kind/kind.ts';
import { siteSetpointKind } from '../../../../../durable-objects/site/command/kind/site-setpoint.ts';
import type { SiteSetpoint } from '../../../../../protocol/command.ts';
import { ASSET_TYPES, type AssetType, PRIORITIES } from '../../../../../protocol/enums.ts';

const FROM = '2030-03-05T09:00:00.000Z';
const FROM_MS = Date.parse(FROM);

const METER_ALONE = { subDevices: [subDevice('METER-1', 'METER')] };

function refusalOf(setpoint: SiteSetpoint, options: FactsOptions = {}) {
  return judgeBy(siteSetpointKind, setpoint, siteView(options)).refusal;
}

describe('the target of a setpoint', () => {
  it('a setpoint for a plant without a gateway is DEVICE_OFFLINE, even if linked devices are connected [C-2.4]', () => {
    const subDevices = [subDevice('BESS-1', 'BESS', { linkedDeviceId: 'inverter-1' })];
    expect(refusalOf(power(5), { gatewayId: undefined, subDevices, active: ['inverter-1'] })).toEqual({
      rejectionCode: 'DEVICE_OFFLINE',
      message: 'no gateway serves this site',
    });
  });

  it('a setpoint for an offline gateway passes the checks [C-7.6]', () => {
    expect(refusalOf(power(5), { away: [GATEWAY] })).toBeUndefined();
  });
});

describe('the constraint of a setpoint', () => {
  const soft = { constraints: { maxImportKw: 100, maxExportKw: 80 } };
  const hard = { ...soft, hardLimits: { maxImportKw: 60 } };
  const ofBattery = { constraints: { maxChargeKw: 1, maxDischargeKw: 1 } };

  it.each<[string, SiteSetpoint, FactsOptions, [string, number, number]?]>([
    ['import at the limit passes', power(100), soft],
    ['import over the limit is refused', power(100.5), soft, ['maxImportKw', 100, 100.5]],
    ['export at the limit passes', power(80, EXPORT), soft],
    ['export over its limit is refused, in positive kW', power(81, EXPORT), soft, ['maxExportKw', 80, 81]],
    ['an export of 0 passes a limit of 0', power(0, EXPORT), { constraints: { maxExportKw: 0 } }],
    ['import over the hard limit is refused', power(61), hard, ['hardLimits.maxImportKw', 60, 61]],
    ['import over both limits names the constraint', power(101), hard, ['maxImportKw', 100, 101]],
    ['charge and discharge limits do not apply', power(1_000), ofBattery],
    ['any power passes without limits', power(1e9, EXPORT), {}],
    ['an energy whose mean power is at the limit passes', energy(25, 15), soft],
    ['energy over the limit on average is refused', energy(25.5, 15), soft, ['maxImportKw', 100, 102]],
    ['exported energy over its limit is refused', energy(81, 60, EXPORT), soft, ['maxExportKw', 80, 81]],
    ['intervalMinutes has no effect on a POWER setpoint', power(100, { intervalMinutes: 1 }), soft],
  ])('%s [C-7.8]', (_what, setpoint, options, expected) => {
    const why = refusalOf(setpoint, options);
    if (!expected) expect(why).toBeUndefined();
    else {
      const [constraint, limit, value] = expected;
      expect(why).toEqual({
        rejectionCode: 'CONSTRAINT_VIOLATION',
        message: `${value} kW exceeds ${constraint} ${limit} kW`,
        violation: { constraint, limit, value, unit: 'kW' },
      });
    }
  });

  it.each(PRIORITIES)('applies to the priority %s [C-7.7]', (priority) => {
    const options = { constraints: { maxImportKw: 10 } };
    expect(refusalOf(power(11, { priority }), options)?.rejectionCode).toBe('CONSTRAINT_VIOLATION');
  });

  it('applies without includeConsumption too [C-7.8]', () => {
    const options = { constraints: { maxImportKw: 10 } };
    expect(refusalOf(power(11, { includeConsumption: false }), options)).toBeDefined();
  });
});

describe('the topology of a setpoint', () => {
  it.each(ASSET_TYPES)(
    'accepts, with %s as the only asset, an export only if the asset can supply power [C-7.4]',
    (assetType) => {
      const options = { subDevices: [subDevice('ONE', assetType)] };
      const gives = ['FVE', 'INVERTER', 'BESS'].includes(assetType);
      expect(refusalOf(power(5, EXPORT), options)).toEqual(
        gives
          ? undefined
          : { rejectionCode: 'UNSUPPORTED_FOR_TOPOLOGY', message: 'the site has no FVE, INVERTER, BESS' },
      );
      expect(refusalOf(power(5), options)).toBeUndefined();
    },
  );

  it('a plant without sub-devices accepts only imports [C-7.4]', () => {
    expect(refusalOf(power(5), { subDevices: [] })).toBeUndefined();
    expect(refusalOf(power(5, EXPORT), { subDevices: [] })?.rejectionCode).toBe('UNSUPPORTED_FOR_TOPOLOGY');
  });
});

describe('the checks of a setpoint', () => {
  const breaks = [
    ['target', 'DEVICE_OFFLINE', { gatewayId: undefined }],
    ['constraint', 'CONSTRAINT_VIOLATION', { constraints: { maxExportKw: 1 } }],
    ['topology', 'UNSUPPORTED_FOR_TOPOLOGY', METER_ALONE],
  ] as const;

  it.each(
    subsetsOf(breaks).map((broken) => [broken.map(([name]) => name).join(', ') || 'none', broken] as const),
  )('a setpoint with these errors (%s) has the code of the first error [C-7.4]', (_names, broken) => {
    const options: FactsOptions = Object.assign({}, ...broken.map(([, , some]) => some));
    expect(refusalOf(power(5, EXPORT), options)?.rejectionCode).toBe(broken[0]?.[1]);
  });
});

describe('other rules of a setpoint', () => {
  const plan = (setpoint: SiteSetpoint, options: FactsOptions = {}) =>
    siteSetpointKind.plan(setpoint, [], siteView(options));

  it('the window of a setpoint is the one in its payload, and an open one has no end [C-7.6]', () => {
    expect(siteSetpointKind.window(power(5))).toEqual({ fromMs: FROM_MS, untilMs: undefined });
    const validUntil = '2030-03-05T11:30:00+02:00';
    expect(siteSetpointKind.window(power(5, { validUntil }))).toEqual({
      fromMs: FROM_MS,
      untilMs: FROM_MS + 30 * 60_000,
    });
  });

  it.each([
    ['an import', 'HIGH', 5, power(5, { priority: 'HIGH' })],
    ['an export', 'NORMAL', -5, power(5, EXPORT)],
    ['an export of 0', 'NORMAL', 0, power(0, EXPORT)],
    ['imported energy', 'EMERGENCY', 120, energy(30, 15, { priority: 'EMERGENCY' })],
    ['exported energy', 'NORMAL', -30, energy(30, 60, EXPORT)],
  ])(
    'the log shows %s with the priority %s and the signed power %d kW [C-7.8]',
    (_what, priority, kw, setpoint) => {
      expect(siteSetpointKind.logColumns(setpoint)).toEqual({
        priority,
        target: 'SITE',
        target_value_kw: kw,
      });
    },
  );

  it('a setpoint becomes one MQTT command for the gateway with its payload and signed power [C-7.10]', () => {
    const subDevices = [subDevice('BESS-1', 'BESS', { linkedDeviceId: 'inverter-1' })];
    const planned = plan(power(5, EXPORT), { subDevices, active: ['inverter-1'] });
    expect(planned).toEqual([
      {
        deviceId: GATEWAY,
        action: 'SITE_SETPOINT',
        items: [],
        payloadText:
          '{"type":"POWER","targetValueKw":5,"direction":"EXPORT","includeConsumption":true,' +
          `"priority":"NORMAL","validFrom":"${FROM}","targetSignedKw":-5}`,
      },
    ]);
  });

  it('targetSignedKw is a plain decimal with at most six places [C-3.7]', () => {
    const [planned] = plan(energy(10, 7));
    expect(planned?.payloadText).toContain('"targetSignedKw":85.714286}');
  });

  it('a setpoint that waited is checked against the current limits [C-7.6]', () => {
    const recheck = (setpoint: SiteSetpoint, options: FactsOptions) =>
      siteSetpointKind.recheck(setpoint, {} as Waiting, siteView(options), true);
    expect(recheck(power(5), { constraints: { maxImportKw: 5 } })).toBeUndefined();
    expect(recheck(power(5), { constraints: { maxImportKw: 4 } })?.rejectionCode).toBe(
      'CONSTRAINT_VIOLATION',
    );
    expect(recheck(power(5), { constraints: { maxExportKw: 4 } })).toBeUndefined();
    expect(recheck(power(5, EXPORT), { hardLimits: { maxExportKw: 4 } })?.violation?.constraint).toBe(
      'hardLimits.maxExportKw',
    );
  });

  it('an export that waited is sent only if the site can still export [C-7.6]', () => {
    const recheck = (setpoint: SiteSetpoint, assetType: AssetType) =>
      siteSetpointKind.recheck(
        setpoint,
        {} as Waiting,
        siteView({ subDevices: [subDevice('ONE', assetType)] }),
        true,
      )?.rejectionCode;
    expect(recheck(power(5, EXPORT), 'METER')).toBe('UNSUPPORTED_FOR_TOPOLOGY');
    expect(recheck(power(5, EXPORT), 'BESS')).toBeUndefined();
    expect(recheck(power(5), 'METER')).toBeUndefined();
  });
});
