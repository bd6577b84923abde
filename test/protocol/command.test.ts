/**
 * Command payloads: every bound from both sides. A payload that the parser refuses leads to REJECTED
 * INVALID_PAYLOAD.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  type Command,
  parsePublish,
  type SiteSetpoint,
  statedWindow,
  targetSignedKw,
} from '../../protocol/command.ts';
import { faultsText } from '../../protocol/issue.ts';
import { COMMAND_FAMILIES, type CommandFamily, commandRoutingKey } from '../../protocol/routing-keys.ts';

const POWER = {
  type: 'POWER',
  targetValueKw: 12.5,
  direction: 'IMPORT',
  includeConsumption: true,
  priority: 'NORMAL',
  validFrom: '2026-01-15T10:00:00Z',
};
const { targetValueKw: _targetValueKw, ...WITHOUT_TARGET } = POWER;
const ENERGY = { ...WITHOUT_TARGET, type: 'ENERGY', targetValueKwh: 30, intervalMinutes: 15 };
const CHARGE = { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE' };
const REDUCE_PERCENT = { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_REDUCE_PERCENT' };
const REDUCE_POWER = { ...REDUCE_PERCENT, command: 'FVE_REDUCE_POWER' };

const read = (family: CommandFamily, payloadText: string) =>
  parsePublish(family, commandRoutingKey('acme', family), payloadText);

/** The rejection, or undefined for an accepted payload. `payload` is JSON text or a value to serialize. */
function refusal(family: CommandFamily, payload: unknown): string | undefined {
  const parsed = read(family, typeof payload === 'string' ? payload : JSON.stringify(payload));
  return parsed.ok ? undefined : faultsText(parsed.refusal);
}

function accepted(family: CommandFamily, payload: unknown): Command {
  const parsed = read(family, typeof payload === 'string' ? payload : JSON.stringify(payload));
  if (!parsed.ok) throw new Error(faultsText(parsed.refusal));
  return parsed.value;
}

function setpoint(payload: unknown): SiteSetpoint {
  const command = accepted('site-setpoint', payload);
  if (command.commandType !== 'SITE_SETPOINT') throw new Error(command.commandType);
  return command.payload;
}

const batch = (...commands: unknown[]) => ({ commands });
const reduce = (percent: unknown) => batch({ ...REDUCE_PERCENT, params: { percent } });

describe('parsePublish', () => {
  it.each([
    ['site-setpoint', 'SITE_SETPOINT', POWER],
    ['site-setpoint', 'SITE_SETPOINT', ENERGY],
    ['device', 'DEVICE_COMMAND', batch(CHARGE)],
    ['emergency', 'EMERGENCY', { type: 'STOP' }],
    ['emergency', 'EMERGENCY', { type: 'HOLD', reason: '' }],
    ['mode', 'MODE_CHANGE', { mode: 'ZERO_EXPORT', reason: 'r', validUntil: '2026-01-15T11:00:00+01:00' }],
  ] as const)(
    'reads a payload of the family %s as %s [spec: Command payloads]',
    (family, commandType, payload) => {
      expect(accepted(family, payload)).toEqual({ commandType, payload });
    },
  );

  it.each([
    ['an unknown field of a setpoint', 'site-setpoint', { ...POWER, note: 1 }, 'note'],
    ['an unknown field of a batch', 'device', { ...batch(CHARGE), id: 1 }, 'id'],
    ['an unknown field of an item', 'device', batch({ ...CHARGE, power: 1 }), 'power'],
    ['an unknown parameter', 'device', batch({ ...CHARGE, params: { kw: 1 } }), 'kw'],
    ['an unknown field of an emergency', 'emergency', { type: 'STOP', all: true }, 'all'],
    ['an unknown field of a mode', 'mode', { mode: 'STANDARD', validFrom: 'x' }, 'validFrom'],
    ['a __proto__ field', 'emergency', '{"type":"STOP","__proto__":{"reason":"x"}}', '__proto__'],
    ['a constructor field', 'emergency', '{"type":"STOP","constructor":1}', 'constructor'],
    ['a required field that only a __proto__ has', 'emergency', '{"__proto__":{"type":"STOP"}}', 'type'],
  ] as const)('refuses %s and names the field [C-7.4]', (_title, family, payload, named) => {
    expect(refusal(family, payload)).toContain(named);
    expect('reason' in {}).toBe(false);
  });

  it('refuses an empty payload of every family, and unknown enum values [C-7.4]', () => {
    for (const family of COMMAND_FAMILIES) expect(refusal(family, {})).toBeDefined();
    expect(refusal('emergency', { type: 'stop' })).toMatch(/^type: /);
    expect(refusal('mode', { mode: 'TURBO' })).toMatch(/^mode: /);
    expect(refusal('device', batch({ ...CHARGE, command: 'toString' }))).toMatch(/^commands\.0\.command: /);
    expect(refusal('device', batch({ ...CHARGE, assetType: 'WIND' }))).toMatch(/^commands\.0\.assetType: /);
  });

  it.each<[CommandFamily, unknown, string[]]>([
    [
      'site-setpoint',
      {
        type: 'POWER',
        direction: 'UP',
        includeConsumption: true,
        priority: 'NORMAL',
        validFrom: 'now',
        watts: 1,
      },
      [
        'direction: must be one of IMPORT, EXPORT',
        'validFrom: must be an ISO 8601 instant with a time zone',
        'unknown field "watts"',
        'targetValueKw: required when type is POWER',
      ],
    ],
    [
      'site-setpoint',
      { ...WITHOUT_TARGET, type: 'ENERGY', priority: 'URGENT' },
      [
        'priority: must be one of NORMAL, HIGH, EMERGENCY',
        'targetValueKwh: required when type is ENERGY',
        'intervalMinutes: required when type is ENERGY',
      ],
    ],
    ['site-setpoint', { ...WITHOUT_TARGET, type: 'toString' }, ['type: must be one of POWER, ENERGY']],
    [
      'device',
      batch(
        { ...CHARGE, deviceId: '' },
        REDUCE_POWER,
        { ...REDUCE_PERCENT, assetType: 'WIND', params: { kw: 1 } },
        { ...CHARGE, command: 'toString' },
      ),
      [
        'commands.0.deviceId: must not be empty',
        'commands.1.params.powerKw: required for FVE_REDUCE_POWER',
        expect.stringMatching(/^commands\.2\.assetType: must be one of /) as string,
        'commands.2.params: unknown field "kw"',
        'commands.2.params.percent: required for FVE_REDUCE_PERCENT',
        expect.stringMatching(/^commands\.3\.command: must be one of /) as string,
      ],
    ],
    [
      'mode',
      { mode: 'TURBO', reason: 5, validUntil: 'later' },
      [
        expect.stringMatching(/^mode: must be one of /) as string,
        'reason: must be text',
        'validUntil: must be an ISO 8601 instant with a time zone',
      ],
    ],
    [
      'emergency',
      { reason: 5 },
      [expect.stringMatching(/^type: /) as string, expect.stringMatching(/^reason: /) as string],
    ],
    [
      'schedule',
      {
        scheduleId: 'mine',
        startTime: '2026-01-15T10:00:00Z',
        endTime: '2026-01-15T11:00:00Z',
        slots: [
          { slotIndex: 0, mode: 'STANDARD', setpoint: { value: '5' } },
          { slotIndex: 2, mode: 'TURBO' },
        ],
      },
      [
        'scheduleId: must be a UUID',
        'slots.0.setpoint.value: must be a number',
        expect.stringMatching(/^slots\.1\.mode: must be one of /) as string,
        'slots.1.slotIndex: must be 1: slots are contiguous from 0',
        'endTime: must be startTime plus the duration of all slots, or be omitted',
      ],
    ],
    [
      'schedule',
      { startTime: 'noon', endTime: '2026-01-15T11:00:00Z', slots: [null, { mode: 'STANDARD' }] },
      [
        'startTime: must be an ISO 8601 instant with a time zone',
        'slots.0: must be an object',
        expect.stringMatching(/^slots\.1\.slotIndex: /) as string,
      ],
    ],
    [
      'config',
      { constraints: { maxImportKw: -1, minSocPercent: 101 }, fallback: { mode: 'TURBO' }, hardLimits: {} },
      [
        expect.stringMatching(/^constraints\.maxImportKw: /) as string,
        expect.stringMatching(/^constraints\.minSocPercent: /) as string,
        expect.stringMatching(/^fallback\.mode: /) as string,
        'unknown field "hardLimits"',
      ],
    ],
  ])('reports all faults of a payload of the family %s together [C-7.4]', (family, payload, faults) => {
    const parsed = read(family, JSON.stringify(payload));
    expect(parsed).toEqual({ ok: false, refusal: faults });
  });

  it('returns a Result, and throws no error, for any JSON value, even a deep one [C-7.4]', () => {
    forAll(fc.constantFrom(...COMMAND_FAMILIES), fc.jsonValue(), (family, value) =>
      expect(typeof read(family, JSON.stringify(value)).ok).toBe('boolean'),
    );
    expect(refusal('emergency', `{"type":${'['.repeat(10_000)}${']'.repeat(10_000)}}`)).toMatch(/^type: /);
  });
});

describe('site setpoint', () => {
  it.each([
    ['targetValueKw', { ...POWER, targetValueKw: undefined }],
    ['targetValueKwh', { ...ENERGY, targetValueKwh: undefined }],
    ['intervalMinutes', { ...ENERGY, intervalMinutes: undefined }],
  ])('requires %s for the type that uses it [spec: Command payloads]', (field, payload) => {
    expect(refusal('site-setpoint', payload)).toBe(`${field}: required when type is ${payload.type}`);
  });

  it.each(Object.keys(WITHOUT_TARGET))('requires %s [spec: Command payloads]', (field) => {
    expect(refusal('site-setpoint', { ...POWER, [field]: undefined })).toMatch(new RegExp(`^${field}: `));
  });

  it('accepts intervalMinutes for the type POWER too [spec: Command payloads]', () => {
    expect(setpoint({ ...POWER, intervalMinutes: 15 }).intervalMinutes).toBe(15);
  });

  it.each([0, 1e9])('accepts a target of %d [C-7.4]', (value) => {
    expect(setpoint({ ...POWER, targetValueKw: value }).targetValueKw).toBe(value);
    expect(setpoint({ ...ENERGY, targetValueKwh: value }).targetValueKwh).toBe(value);
  });

  it.each(['1000000000.1', '1e308', '1e400', '-0.001', '-1e10', '"5"', 'null'])(
    'refuses a target of %s [C-7.4]',
    (text) => {
      const payload = JSON.stringify(POWER).replace('12.5', text);
      expect(refusal('site-setpoint', payload)).toMatch(/^targetValueKw: /);
    },
  );

  it.each([1, 1.5, 10_080])('accepts intervalMinutes of %d, for either type [C-7.4]', (intervalMinutes) => {
    expect(setpoint({ ...ENERGY, intervalMinutes }).intervalMinutes).toBe(intervalMinutes);
    expect(setpoint({ ...POWER, intervalMinutes }).intervalMinutes).toBe(intervalMinutes);
  });

  it.each([-15, 0, 1e-300, 0.999, 10_080.001, 1e10, '15'])(
    'refuses intervalMinutes of %j, for either type [C-7.4]',
    (intervalMinutes) => {
      expect(refusal('site-setpoint', { ...ENERGY, intervalMinutes })).toMatch(/^intervalMinutes: /);
      expect(refusal('site-setpoint', { ...POWER, intervalMinutes })).toMatch(/^intervalMinutes: /);
    },
  );

  it('reads null as absent for an optional field, and as missing for a required one [C-7.1]', () => {
    const read = setpoint({ ...POWER, intervalMinutes: null, validUntil: null });
    expect(Object.keys(read)).not.toContain('validUntil');
    expect(refusal('site-setpoint', { ...ENERGY, intervalMinutes: null })).toMatch(/^intervalMinutes: /);
    expect(refusal('site-setpoint', { ...POWER, direction: null })).toMatch(/^direction: /);
    expect(refusal('mode', { mode: 'STANDARD', reason: null, validUntil: null })).toBeUndefined();
    const item = { deviceId: 'B', assetType: 'BESS', command: 'BESS_STOP' };
    expect(refusal('device', { commands: [{ ...item, params: null }] })).toBeUndefined();
    expect(refusal('device', { commands: [{ ...item, params: { powerKw: null } }] })).toBeUndefined();
    expect(refusal('device', { commands: [null] })).toMatch(/^commands.0: /);
    expect(refusal('device', { commands: null })).toMatch(/^commands: /);
    expect(refusal('emergency', { type: 'STOP', unknown: null })).toBeUndefined();
  });

  it('reads a target of -0 as 0 [C-7.4]', () => {
    const read = setpoint(JSON.stringify(POWER).replace('12.5', '-0.0'));
    expect(Object.is(read.targetValueKw, 0)).toBe(true);
    expect(Object.is(targetSignedKw({ ...read, direction: 'EXPORT' }), 0)).toBe(true);
  });

  it.each(['2026-01-15T10:00:00', '2026-02-30T10:00:00Z', 'tomorrow', 1768471200000])(
    'refuses %j as validFrom and as validUntil [C-7.6]',
    (time) => {
      expect(refusal('site-setpoint', { ...POWER, validFrom: time })).toMatch(/^validFrom: /);
      expect(refusal('site-setpoint', { ...POWER, validUntil: time })).toMatch(/^validUntil: /);
      expect(refusal('mode', { mode: 'STANDARD', validUntil: time })).toMatch(/^validUntil: /);
    },
  );

  it('requests positive power when importing, negative when exporting [C-7.8]', () => {
    expect(targetSignedKw(setpoint(POWER))).toBe(12.5);
    expect(targetSignedKw(setpoint({ ...POWER, direction: 'EXPORT' }))).toBe(-12.5);
  });

  it('requests the mean power over the interval for an energy target [C-7.8]', () => {
    expect(targetSignedKw(setpoint(ENERGY))).toBe(120);
    expect(targetSignedKw(setpoint({ ...ENERGY, direction: 'EXPORT', intervalMinutes: 60 }))).toBe(-30);
  });

  it('refuses intervals outside 1 to 10 080 minutes, so that an energy target never requests over 6e10 kW [C-7.4]', () => {
    const amount = fc.double({ min: 0, max: 1e9, noNaN: true });
    const minutes = fc.oneof(fc.double({ noNaN: true }), fc.double({ min: 0.5, max: 20_000, noNaN: true }));
    fc.assert(
      fc.property(amount, minutes, (targetValueKwh, intervalMinutes) => {
        const payload = { ...ENERGY, targetValueKwh, intervalMinutes };
        const accepts = intervalMinutes >= 1 && intervalMinutes <= 10_080;
        expect(refusal('site-setpoint', payload) === undefined).toBe(accepts);
        if (accepts) expect(targetSignedKw(setpoint(payload))).toBeLessThanOrEqual(6e10);
      }),
      {
        examples: [
          [1e9, 1e-300],
          [1e9, 1],
          [1e9, 10_080],
        ],
      },
    );
  });
});

describe('device command', () => {
  it.each([1, 32])('accepts %d items [spec: Limits]', (count) => {
    expect(refusal('device', batch(...Array(count).fill(CHARGE)))).toBeUndefined();
  });

  it.each([0, 33])('refuses %d items [spec: Limits]', (count) => {
    expect(refusal('device', batch(...Array(count).fill(CHARGE)))).toMatch(/^commands: /);
  });

  it.each([0, 33.3, 100])('accepts %d as the parameter percent [C-7.4]', (percent) => {
    expect(refusal('device', reduce(percent))).toBeUndefined();
  });

  it.each([-0.1, 100.1, 1e10, '50', null])('refuses %j as the parameter percent [C-7.4]', (percent) => {
    expect(refusal('device', reduce(percent))).toMatch(/^commands\.0\.params\.percent: /);
  });

  it.each([-1, 1e9 + 1, 1e308, '5'])('refuses a powerKw of %j [C-7.4]', (powerKw) => {
    const payload = batch(CHARGE, { ...CHARGE, params: { powerKw } });
    expect(refusal('device', payload)).toMatch(/^commands\.1\.params\.powerKw: /);
  });

  it('reads -0 in parameters as 0 [C-7.4]', () => {
    const text = JSON.stringify(batch({ ...CHARGE, params: { powerKw: 7, percent: 9 } }));
    const command = accepted('device', text.replace(/[79]/g, '-0'));
    if (command.commandType !== 'DEVICE_COMMAND') throw new Error(command.commandType);
    expect(command.payload.commands[0]?.params).toStrictEqual({ powerKw: 0, percent: 0 });
  });

  it.each([
    ['percent', REDUCE_PERCENT, { powerKw: 5 }],
    ['powerKw', REDUCE_POWER, { percent: 5 }],
  ])('requires %s when the command sets it [C-7.4]', (field, item, other) => {
    const reason = `commands.0.params.${field}: required for ${item.command}`;
    expect(refusal('device', batch(item))).toBe(reason);
    expect(refusal('device', batch({ ...item, params: other }))).toBe(reason);
    expect(refusal('device', batch({ ...item, params: { [field]: 5 } }))).toBeUndefined();
  });

  it('leaves powerKw and respectLimits optional for the other commands [C-7.4]', () => {
    expect(refusal('device', batch(CHARGE, { ...CHARGE, params: {} }))).toBeUndefined();
    expect(refusal('device', batch({ ...CHARGE, params: { respectLimits: false } }))).toBeUndefined();
    expect(refusal('device', batch({ ...CHARGE, params: { respectLimits: 'no' } }))).toBeDefined();
  });

  it('refuses an empty deviceId [spec: Command payloads]', () => {
    expect(refusal('device', batch({ ...CHARGE, deviceId: '' }))).toMatch(/^commands\.0\.deviceId: /);
  });
});

describe.each([
  ['emergency', { type: 'STOP' }],
  ['mode', { mode: 'STANDARD' }],
] as const)('the reason of the %s command', (family, payload) => {
  it.each([
    ['Latin letters', 'r'],
    ['letters with a diacritic', 'č'],
    ['emoji, two UTF-16 units each', '\u{1F50B}'],
  ])('may be 500 characters long, not 501, in %s [spec: Limits]', (_title, character) => {
    expect(refusal(family, { ...payload, reason: character.repeat(500) })).toBeUndefined();
    expect(refusal(family, { ...payload, reason: character.repeat(501) })).toMatch(/^reason: .*500/);
  });

  it.each(['a\nb', '\u0000', '\ud83d', '\u202e'])('cannot contain %j [C-1.0]', (reason) => {
    expect(refusal(family, { ...payload, reason })).toMatch(/^reason: must not contain/);
  });

  it('counts a combining mark as a separate character [spec: Limits]', () => {
    expect(refusal(family, { ...payload, reason: 'e\u0301'.repeat(250) })).toBeUndefined();
    expect(refusal(family, { ...payload, reason: `${'e\u0301'.repeat(250)}r` })).toMatch(/^reason: /);
  });

  it.each([[5], [['r']]])('cannot be %j [C-7.4]', (reason) => {
    expect(refusal(family, { ...payload, reason })).toMatch(/^reason: /);
  });
});

describe('the window of an invalid payload', () => {
  const window = { validFrom: '2026-01-15T10:00:00Z', validUntil: '2026-01-15T11:00:00+01:00' };
  const atMs = Date.parse(window.validFrom);

  it.each([
    ['SITE_SETPOINT', window, { fromMs: atMs, untilMs: atMs }],
    ['SITE_SETPOINT', { validFrom: 5, validUntil: 'later' }, { fromMs: undefined, untilMs: undefined }],
    ['MODE_CHANGE', window, { untilMs: atMs }],
    ['DEVICE_COMMAND', window, {}],
    ['SCHEDULE', window, {}],
  ] as const)(
    'has for the type %s only the times that are readable and that this type has [C-7.6]',
    (commandType, payload, expected) => {
      expect(statedWindow(commandType, JSON.stringify(payload))).toEqual(expected);
    },
  );
});
