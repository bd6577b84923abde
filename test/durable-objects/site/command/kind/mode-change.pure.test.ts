/** A mode change as a rule: who must be there, which modes need what, what it does to the site and to the plant. */
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
  it.each(OPERATING_MODES)('%s is for plants that have one of what it needs [C-7.4]', (mode) => {
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
  });

  it('want a gateway first, though it may be away [C-2.4]', () => {
    const without = { gatewayId: undefined, subDevices: [] };
    for (const mode of ['STANDARD', 'PEAK_SHAVING'] as const) {
      expect(refusalOf({ mode }, without)).toEqual({
        rejectionCode: 'DEVICE_OFFLINE',
        message: 'no gateway serves this site',
      });
    }
    expect(refusalOf({ mode: 'STANDARD' }, { away: [GATEWAY] })).toBeUndefined();
  });

  it('look neither at limits nor at faults [C-7.4]', () => {
    const options = { constraints: { maxExportKw: 0 }, offline: ['BESS-1'], inFault: ['BESS-1', 'FVE-1'] };
    expect(refusalOf({ mode: 'MAX_EXPORT' }, options)).toBeUndefined();
  });
});

describe('what a mode change is beside its checks', () => {
  it('has an end where it names one, and begins at once [C-7.7]', () => {
    expect(modeChangeKind.window({ mode: 'STANDARD' })).toEqual({ untilMs: undefined });
    expect(modeChangeKind.window({ mode: 'STANDARD', validUntil: UNTIL })).toEqual({
      untilMs: NOW_MS + 2 * 3_600_000,
    });
  });

  it('is logged for the site, without priority and power [C-4.3]', () => {
    expect(modeChangeKind.logColumns({ mode: 'STANDARD' })).toEqual({
      priority: null,
      target: 'SITE',
      target_value_kw: null,
    });
  });

  it('becomes one MQTT command for the gateway, in ASCII [C-7.10]', () => {
    const subDevices = [subDevice('BESS-1', 'BESS', { linkedDeviceId: 'inverter-1' })];
    const facts = siteView({ subDevices, active: ['inverter-1'] });
    expect(modeChangeKind.plan({ mode: 'GRID_TARGET', reason: 'č' }, [], facts)).toEqual([
      {
        deviceId: GATEWAY,
        action: 'MODE_CHANGE',
        payloadText: '{"mode":"GRID_TARGET","reason":"\\u010d"}',
        items: [],
      },
    ]);
  });

  it("that waited goes out where all is as it was, and ends by its device's ack [C-7.8]", () => {
    expect(modeChangeKind.recheck({ mode: 'PEAK_SHAVING' }, {} as Waiting, siteView())).toBeUndefined();
  });
});
