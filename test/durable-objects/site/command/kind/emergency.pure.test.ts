/** The rules of an emergency: it needs at least one device in service, and goes to all of them [C-2.4]. */
import { describe, expect, it } from 'vitest';
import { type FactsOptions, GATEWAY, judgeBy, siteView, subDevice } from '#workerd/site-view.ts';
import { emergencyKind } from '../../../../../durable-objects/site/command/kind/emergency.ts';
import type { Waiting } from '../../../../../durable-objects/site/command/kind/kind.ts';
import type { Emergency } from '../../../../../protocol/command.ts';

const LINKED = [
  subDevice('BESS-1', 'BESS', { linkedDeviceId: 'inverter-1' }),
  subDevice('FVE-1', 'FVE', { linkedDeviceId: 'inverter-2' }),
  subDevice('METER-1', 'METER'),
];

function refusalOf(options: FactsOptions) {
  return judgeBy(emergencyKind, { type: 'STOP' }, siteView(options)).refusal;
}

function reached(options: FactsOptions, payload: Emergency = { type: 'STOP' }) {
  return emergencyKind.plan(payload, [], siteView(options)).map(({ deviceId }) => deviceId);
}

describe('the check of an emergency', () => {
  const linkedAlone = { gatewayId: undefined, subDevices: LINKED };

  it.each<[string, string, FactsOptions]>([
    ['only a gateway', 'passes', { subDevices: [] }],
    ['an offline gateway', 'passes', { away: [GATEWAY] }],
    ['only a linked device', 'passes', { ...linkedAlone, active: ['inverter-2'] }],
    ['only inactive linked devices', 'no gateway serves this site', linkedAlone],
    ['no device', 'no gateway serves this site', { gatewayId: undefined }],
  ])('an emergency for a plant with %s gets the result: %s [C-2.4]', (_who, expected, options) => {
    const refused = { rejectionCode: 'DEVICE_OFFLINE', message: expected };
    expect(refusalOf(options)).toEqual(expected === 'passes' ? undefined : refused);
  });

  it('an emergency is not checked against limits, topology or faults [C-7.4]', () => {
    const options = { constraints: { maxImportKw: 0 }, inFault: ['BESS-1'], offline: ['BESS-1'] };
    expect(refusalOf(options)).toBeUndefined();
  });
});

describe('the MQTT commands of an emergency', () => {
  const [ONE, TWO] = ['inverter-1', 'inverter-2'];

  it.each<[string, FactsOptions, string[]]>([
    ['the gateway', {}, [GATEWAY]],
    ['the gateway and every linked device', { active: [ONE, TWO] }, [GATEWAY, ONE, TWO]],
    ['the gateway and an offline linked device', { active: [TWO], away: [TWO] }, [GATEWAY, TWO]],
    ['the linked device, if there is no gateway', { gatewayId: undefined, active: [ONE] }, [ONE]],
    ['a gateway that is also a linked device', { gatewayId: 'inverter-1' }, ['inverter-1']],
    ['the gateway, and no device that is not linked', { active: ['sensor-1'] }, [GATEWAY]],
  ])('an emergency is sent once to each of its recipients: %s [C-2.4]', (_who, options, expected) => {
    expect(reached({ subDevices: LINKED, ...options })).toEqual(expected);
  });

  it.each<[Emergency, string, string]>([
    [{ type: 'STOP' }, 'EMERGENCY_STOP', '{"type":"STOP"}'],
    [{ type: 'HOLD', reason: 'oheň' }, 'EMERGENCY_HOLD', '{"type":"HOLD"}'],
  ])('the emergency %j is sent as %s [C-7.10]', (payload, action, payloadText) => {
    expect(emergencyKind.plan(payload, [], siteView())).toEqual([
      { deviceId: GATEWAY, action, payloadText, items: [] },
    ]);
  });
});

describe('other rules of an emergency', () => {
  it('an emergency has no window and no priority, and targets the site [C-7.8]', () => {
    expect(emergencyKind.window({ type: 'STOP' })).toEqual({});
    expect(emergencyKind.logColumns({ type: 'STOP' })).toEqual({
      priority: null,
      target: 'SITE',
      target_value_kw: null,
    });
  });

  it('an emergency that waited is sent even if the plant has no gateway any more and limits have changed [C-7.6]', () => {
    const facts = siteView({ gatewayId: undefined, constraints: { maxImportKw: 0 } });
    expect(emergencyKind.recheck({ type: 'STOP' }, {} as Waiting, facts, true)).toBeUndefined();
  });
});
