/** Device templates: what one may say, and which parameters and values fit it [C-11.6]. */
import { describe, expect, it } from 'vitest';
import { ASSETS } from '../../protocol/asset.ts';
import { deviceCommandItem } from '../../protocol/command.ts';
import {
  deviceTemplateRecord,
  deviceTemplateRequest,
  paramFaults,
  signalFault,
  type TemplateAction,
  type TemplateParam,
  templateAction,
} from '../../protocol/device-template.ts';
import { ASSET_TYPES } from '../../protocol/enums.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { SYSTEM_TEMPLATES, systemTemplate } from '../../protocol/system-template.ts';

const SIGNAL = { name: 'powerKw', label: 'Power', unit: 'kW', kind: 'GAUGE' };
const LONGEST_TEXT = 'x'.repeat(LIMIT.templateTextCharacters);

function faultsOf(fields: object): string[] {
  const parsed = deviceTemplateRequest.safeParse({ name: 'T', assetType: 'BESS', ...fields });
  return parsed.success ? [] : parsed.error.issues.map(({ path }) => path.join('.'));
}

function actionWith(params: Record<string, TemplateParam>): TemplateAction {
  return { action: 'SET', label: 'Set', params };
}

describe('a device template', () => {
  it('may have up to 200 signals and 64 actions [C-11.6]', () => {
    const signals = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ ...SIGNAL, name: `s${index}` }));
    const actions = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ action: `A${index}`, label: 'A' }));
    expect(faultsOf({ signals: signals(200), actions: actions(64) })).toEqual([]);
    expect(faultsOf({ signals: signals(201) })).toEqual(['signals']);
    expect(faultsOf({ actions: actions(65) })).toEqual(['actions']);
  });

  it('has at most 32 KiB of signals and of actions as JSON [C-11.6]', () => {
    const label = 'č'.repeat(100);
    const signals = Array.from({ length: 200 }, (_, index) => ({
      ...SIGNAL,
      name: `${index}`.padStart(100, 's'),
      label,
    }));
    expect(faultsOf({ signals: signals.slice(0, 80) })).toEqual([]);
    expect(faultsOf({ signals })).toEqual(['signals']);
  });

  it.each([
    ['a name that is empty', { name: '' }, 'name'],
    ['a name of 129 characters', { name: 'x'.repeat(129) }, 'name'],
    ['a name with a sub-device', { name: 'BESS-1/powerKw' }, 'name'],
    ['a name with a control character', { name: 'a\u0007' }, 'name'],
    ['no label', { label: undefined }, 'label'],
    ['a unit of 17 characters', { unit: 'x'.repeat(17) }, 'unit'],
    ['an unknown kind', { kind: 'COUNTER' }, 'kind'],
    ['min above max', { min: 2, max: 1 }, 'min'],
    ['a bound over 1e12', { max: 2e12 }, 'max'],
    ['states of a gauge', { states: [{ value: 0, label: 'Off' }] }, 'states'],
    ['bounds of a state', { kind: 'STATE', min: 0 }, 'kind'],
    ['a state twice', { kind: 'STATE', states: [0, 0].map((value) => ({ value, label: 'Off' })) }, 'states'],
    ['an unknown field', { colour: 'red' }, ''],
  ])('rejects a signal with %s [C-11.6]', (_what, fields, path) => {
    expect(faultsOf({ signals: [SIGNAL, { ...SIGNAL, name: 'b', ...fields }] })).toEqual([
      ['signals', '1', path].filter((part) => part !== '').join('.'),
    ]);
  });

  it('names each signal and each action once [C-11.6]', () => {
    expect(faultsOf({ signals: [SIGNAL, SIGNAL, SIGNAL] })).toEqual(['signals.1.name', 'signals.2.name']);
    const reboot = { action: 'REBOOT', label: 'Restart' };
    expect(faultsOf({ actions: [reboot, reboot] })).toEqual(['actions.1.action']);
  });

  it.each([
    ['lower-case letters', { action: 'reboot' }, 'action'],
    ['no label', { label: undefined }, 'label'],
    ['a parameter that begins with a digit', { params: { '1st': { type: 'number' } } }, 'params.1st'],
    ['a parameter of an unknown type', { params: { a: { type: 'date' } } }, 'params.a.type'],
    ['bounds of a text', { params: { a: { type: 'string', max: 3 } } }, 'params.a.type'],
    ['min above max', { params: { a: { type: 'integer', min: 3, max: 2 } } }, 'params.a.min'],
    ['a choice of another type', { params: { a: { type: 'integer', enum: [1, 1.5] } } }, 'params.a.enum'],
    ['a choice over max', { params: { a: { type: 'number', max: 2, enum: [3] } } }, 'params.a.enum'],
    ['a choice twice', { params: { a: { type: 'string', enum: ['x', 'x'] } } }, 'params.a.enum'],
    ['no choice', { params: { a: { type: 'string', enum: [] } } }, 'params.a.enum'],
    [
      '33 parameters',
      {
        params: Object.fromEntries(
          Array.from({ length: 33 }, (_, index) => [`p${index}`, { type: 'boolean' }]),
        ),
      },
      'params',
    ],
  ])('rejects an action with %s [C-11.6]', (_what, fields, path) => {
    expect(faultsOf({ actions: [{ action: 'SET', label: 'Set', ...fields }] })).toEqual([
      `actions.0.${path}`,
    ]);
  });
});

describe('the parameters of an action', () => {
  it.each<[string, TemplateParam, unknown[], unknown[]]>([
    [
      'number',
      { type: 'number' },
      [-1.5, 0.000001, 1e12],
      ['1', true, null, {}, [], 1e13, 1e-7, Infinity, Number.NaN],
    ],
    ['number with bounds', { type: 'number', min: -1, max: 1.5 }, [-1, 0, 1.5], [-1.0001, 1.5001]],
    ['number with choices', { type: 'number', enum: [0.5, 1] }, [0.5, 1], [0.6]],
    ['integer', { type: 'integer' }, [-3, 0, 1e12], [0.5, 1e12 + 1, '1']],
    ['integer with bounds', { type: 'integer', min: 0, max: 60 }, [0, 60], [-1, 61]],
    ['integer with choices', { type: 'integer', enum: [1, 3] }, [1, 3], [2]],
    ['boolean', { type: 'boolean' }, [true, false], [0, 1, 'true', null]],
    ['boolean with a choice', { type: 'boolean', enum: [true] }, [true], [false]],
    ['text', { type: 'string' }, ['', LONGEST_TEXT], [`${LONGEST_TEXT}x`, 1, null, ['x']]],
    ['text with choices', { type: 'string', enum: ['ECO', 'MAX'] }, ['ECO', 'MAX'], ['eco', '']],
  ])(
    'take, for the type %s, every value up to their bounds and none beyond [C-11.6]',
    (_type, param, good, bad) => {
      const action = actionWith({ value: param });
      for (const value of good) expect([value, paramFaults(action, { value })]).toEqual([value, []]);
      for (const value of bad) expect(paramFaults(action, { value })).toHaveLength(1);
      expect(paramFaults(action, {})).toEqual([]);
      expect(paramFaults(actionWith({ value: { ...param, required: true } }), {})).toEqual([
        'payload.value: is required',
      ]);
    },
  );

  it('are all named if several are wrong, with their bounds and units [C-11.6]', () => {
    const action = actionWith({
      delaySeconds: { type: 'integer', unit: 's', min: 0, max: 60, required: true },
      mode: { type: 'string', enum: ['ECO', 'MAX'] },
      force: { type: 'boolean' },
    });
    expect(paramFaults(action, { delaySeconds: 61, mode: 'eco', force: 1, delaysSeconds: 5, x: 1 })).toEqual([
      'payload.delaySeconds: must be at least 0 and at most 60 s',
      'payload.mode: must be one of ECO, MAX',
      'payload.force: must be true or false',
      'payload.delaysSeconds: SET has no such parameter: did you mean "delaySeconds"?',
      'payload.x: SET has no such parameter: its parameters are delaySeconds, mode, force',
    ]);
    expect(paramFaults(actionWith({}), { x: 1 })).toEqual([
      'payload.x: SET has no such parameter: it has none',
    ]);
  });

  it('are never found in the prototype of an object (bad input: REST)', () => {
    const action = actionWith(JSON.parse('{"constructor":{"type":"string","required":true}}'));
    expect(paramFaults(action, {})).toEqual(['payload.constructor: is required']);
    expect(paramFaults(actionWith({}), JSON.parse('{"__proto__":{"a":1}}'))).toHaveLength(1);
  });
});

describe('the name of a parameter', () => {
  it.each(['__proto__', 'a b', '1a', '', 'ä', 'a'.repeat(65)])(
    'refuses %j, and does not drop it (bad input: REST)',
    (name) => {
      const params = JSON.parse(`{"good":{"type":"number"},${JSON.stringify(name)}:{"type":"string"}}`);
      const parsed = templateAction.safeParse({ action: 'SET', label: 'Set', params });
      expect(parsed.success).toBe(false);
      expect(JSON.stringify(parsed.error?.issues)).toContain('letters, digits and _');
      expect(parsed.error?.issues[0]?.path).toEqual(['params', name]);
    },
  );

  it('takes names that every object has from its prototype, as own names', () => {
    const params = JSON.parse('{"constructor":{"type":"number"},"toString":{"type":"number"}}');
    const { params: kept } = templateAction.parse({ action: 'SET', label: 'Set', params });
    expect(Object.keys(kept)).toEqual(['constructor', 'toString']);
  });
});

describe('the value of a signal', () => {
  const gauge = { ...SIGNAL, kind: 'GAUGE' as const };
  it.each([
    [{ ...gauge, min: 0, max: 100 }, [0, 100], [-0.1, 100.1]],
    [{ ...gauge, min: 0 }, [0, 1e12], [-1]],
    [{ ...gauge, kind: 'STATE' as const, states: [{ value: 2, label: 'On' }] }, [2], [1]],
    [gauge, [-1e12, 1e12], []],
  ])('fits %j up to its bounds [C-11.6]', (signal, good, bad) => {
    for (const value of good) expect(signalFault(signal, value)).toBeUndefined();
    for (const value of bad) expect(signalFault(signal, value)).toMatch(/^is /);
  });
});

describe('the templates of the platform', () => {
  it('are one for each asset type, with its signals and commands [C-11.6]', () => {
    expect(SYSTEM_TEMPLATES.map(({ assetType }) => assetType)).toEqual([...ASSET_TYPES]);
    expect(new Set(SYSTEM_TEMPLATES.map(({ id }) => id)).size).toBe(ASSET_TYPES.length);
    for (const template of SYSTEM_TEMPLATES) {
      expect(deviceTemplateRecord.parse(template)).toEqual(template);
      expect(systemTemplate(template.id)).toBe(template);
      const { signals, commands } = ASSETS[template.assetType];
      expect(template.signals.map(({ name }) => name)).toEqual([...signals]);
      expect(template.actions.map(({ action }) => action)).toEqual(Object.keys(commands));
    }
  });

  it('take the parameters of device commands that the platform takes, and no others [C-7.4]', () => {
    const candidates = [
      {},
      { powerKw: 5 },
      { powerKw: -1 },
      { percent: 0 },
      { percent: 101 },
      { respectLimits: 1 },
      { x: 1 },
    ];
    for (const { assetType, actions } of SYSTEM_TEMPLATES) {
      for (const action of actions) {
        for (const params of candidates) {
          const command = { deviceId: 'A', assetType, command: action.action, params };
          const isTaken = deviceCommandItem.safeParse(command).success;
          expect([action.action, params, paramFaults(action, params).length === 0]).toEqual([
            action.action,
            params,
            isTaken,
          ]);
        }
      }
    }
  });
});
