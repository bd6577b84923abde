/** The rules of a mode change: the gateway and assets it needs, and its effect on the site and the plant. */
import { describe, expect, it } from 'vitest';
import { type FactsOptions, GATEWAY, judgeBy, siteView, subDevice } from '#workerd/site-view.ts';
import type { Waiting } from '../../../../../durable-objects/site/command/kind/kind.ts';
import { modeChangeKind } from '../../../../../durable-objects/site/command/kind/mode-change.ts';
import type { ModeChange } from '../../../../../protocol/command.ts';
import {
  ASSET_TYPES,
  type AssetType,
  OPERATING_MODES,
  type OperatingMode,
} from '../../../../../protocol/enums.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');
const UNTIL = '2030-03-05T12:00:00+01:00';

function refusalOf(payload: ModeChange, options: FactsOptions = {}) {
  return judgeBy(modeChangeKind, payload, siteView(options)).refusal;
}

const GIVES: readonly AssetType[] = ['FVE', 'INVERTER', 'BESS'];
const NEEDS: Record<OperatingMode, readonly AssetType[] | undefined> = {
  STANDARD: undefined,
  LOCAL_OPTIMIZATION: undefined,
  ZERO_EXPORT: GIVES,
  MAX_EXPORT: GIVES,
  PEAK_SHAVING: ['BESS'],
  GRID_TARGET: ['BESS'],
  LDS_SUPPORT: ['BESS'],
};

describe('the checks of a mode change', () => {
  it.each(OPERATING_MODES)(
    'the mode %s is accepted only if it needs no asset or the plant has one of the assets that it needs [C-7.4]',
    (mode) => {
      const needed = NEEDS[mode];
      const unsupported = {
        rejectionCode: 'UNSUPPORTED_FOR_TOPOLOGY',
        message: `the site has no ${needed?.join(', ')}`,
      };
      for (const assetType of ASSET_TYPES) {
        const options = { subDevices: [subDevice('METER-9', 'METER'), subDevice('ONE', assetType)] };
        const isSupported = !needed || needed.includes(assetType);
        expect([assetType, refusalOf({ mode }, options)]).toEqual([
          assetType,
          isSupported ? undefined : unsupported,
        ]);
      }
      expect(refusalOf({ mode }, { subDevices: [] })).toEqual(needed ? unsupported : undefined);
    },
  );

  it('a mode change needs a gateway, which may be offline; this is checked before the assets [C-2.4]', () => {
    const without = { gatewayId: undefined, subDevices: [] };
    for (const mode of ['STANDARD', 'PEAK_SHAVING'] as const) {
      expect(refusalOf({ mode }, without)).toEqual({
        rejectionCode: 'DEVICE_OFFLINE',
        message: 'no gateway serves this site',
      });
    }
    expect(refusalOf({ mode: 'STANDARD' }, { away: [GATEWAY] })).toBeUndefined();
  });

  it('a mode change is not checked against limits or faults [C-7.4]', () => {
    const options = { constraints: { maxExportKw: 0 }, offline: ['BESS-1'], inFault: ['BESS-1', 'FVE-1'] };
    expect(refusalOf({ mode: 'MAX_EXPORT' }, options)).toBeUndefined();
  });
});

describe('other rules of a mode change', () => {
  it('a mode change has no earliest time, and ends at validUntil, if it has one [C-7.7]', () => {
    expect(modeChangeKind.window({ mode: 'STANDARD' })).toEqual({ untilMs: undefined });
    expect(modeChangeKind.window({ mode: 'STANDARD', validUntil: UNTIL })).toEqual({
      untilMs: NOW_MS + 2 * 3_600_000,
    });
  });

  it('a mode change is logged for the site, without priority and power [C-4.3]', () => {
    expect(modeChangeKind.logColumns({ mode: 'STANDARD' })).toEqual({
      priority: null,
      target: 'SITE',
      target_value_kw: null,
    });
  });

  it('a mode change becomes one MQTT command for the gateway, without the reason of the partner [C-7.10]', () => {
    const subDevices = [subDevice('BESS-1', 'BESS', { linkedDeviceId: 'inverter-1' })];
    const facts = siteView({ subDevices, active: ['inverter-1'] });
    expect(modeChangeKind.plan({ mode: 'GRID_TARGET', reason: 'č' }, [], facts)).toEqual([
      {
        deviceId: GATEWAY,
        action: 'MODE_CHANGE',
        payloadText: '{"mode":"GRID_TARGET"}',
        items: [],
      },
    ]);
  });

  it('a mode change becomes an MQTT command for each device that is still under an emergency, too [C-7.7]', () => {
    const subDevices = [subDevice('BESS-1', 'BESS', { linkedDeviceId: 'linked-1' })];
    const devicesOf = (options: FactsOptions) =>
      modeChangeKind
        .plan({ mode: 'STANDARD' }, [], siteView({ subDevices, ...options }))
        .map(({ deviceId }) => deviceId);
    const unreleased = [GATEWAY, 'linked-1', 'gateway-2'];
    const active = ['linked-1', 'gateway-2'];
    expect(devicesOf({ unreleased, active })).toEqual([GATEWAY, 'linked-1', 'gateway-2']);
    // A linked device gets it when it connects; a gateway that no longer serves and is not there may never do so.
    expect(devicesOf({ unreleased, active, away: active })).toEqual([GATEWAY, 'linked-1']);
    expect(devicesOf({ unreleased, active: ['gateway-2'] })).toEqual([GATEWAY, 'gateway-2']);
    expect(devicesOf({ unreleased: [], active })).toEqual([GATEWAY]);
  });

  it('a mode change that waited is sent only if the site still has an asset that the mode needs [C-7.6]', () => {
    const recheck = (mode: OperatingMode, options: FactsOptions) =>
      modeChangeKind.recheck({ mode }, {} as Waiting, siteView(options), true)?.rejectionCode;
    const [battery, meter] = [subDevice('BESS-1', 'BESS'), subDevice('METER-9', 'METER')];
    expect(recheck('PEAK_SHAVING', { subDevices: [battery] })).toBeUndefined();
    expect(recheck('PEAK_SHAVING', { subDevices: [meter] })).toBe('UNSUPPORTED_FOR_TOPOLOGY');
    expect(recheck('STANDARD', { subDevices: [] })).toBeUndefined();
  });
});
