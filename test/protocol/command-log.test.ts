/**
 * A row of the command log has the fields that partners read, some of them optional, and no others [C-4.3].
 */
import { describe, expect, it } from 'vitest';
import { commandLogEntry } from '../../protocol/command-log.ts';
import { COMMAND_STATUSES, PRIORITIES, REJECTION_CODES } from '../../protocol/enums.ts';
import { COMMAND_TYPES } from '../../protocol/routing-keys.ts';

const AT = '2026-01-15T10:00:00.000Z';
const REQUIRED = {
  id: 'command-1',
  messageId: '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11',
  correlationId: 'corr-42',
  siteId: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
  commandType: 'DEVICE_COMMAND',
  routingKey: 'acme.command.device',
  status: 'COMPLETED',
  target: 'BESS-1,BESS-2',
  payload: { commands: [{ deviceId: 'BESS-1' }] },
  source: 'acme-trader',
  keyPrefix: 'sw_abc',
  createdAt: AT,
};
const RESULT = { index: 0, deviceId: 'BESS-1', command: 'BESS_CHARGE', status: 'ACCEPTED' };
const OPTIONAL = {
  priority: 'HIGH',
  rejectionCode: 'INVALID_PAYLOAD',
  message: 'why',
  results: [RESULT],
  validFrom: AT,
  validUntil: AT,
  actualValueKw: -4.9,
  targetValueKw: -5,
  deviationKw: 0.1,
  reason: 'unmeasured',
  ackedAt: AT,
  dispatchedAt: AT,
  startedAt: AT,
  finishedAt: AT,
};

function accepts(changes: Record<string, unknown>): boolean {
  return commandLogEntry.safeParse({ ...REQUIRED, ...changes }).success;
}

describe('a row of the command log', () => {
  it('is parsed with all fields of the contract or only the required ones, and nothing is changed [C-4.3]', () => {
    const whole = { ...REQUIRED, ...OPTIONAL };
    expect(commandLogEntry.parse(whole)).toEqual(whole);
    expect(commandLogEntry.parse(REQUIRED)).toEqual(REQUIRED);
  });

  it.each(Object.keys(REQUIRED))('always has %s [C-4.3]', (field) => {
    expect(accepts({ [field]: undefined })).toBe(false);
    expect(accepts({ [field]: 5 })).toBe(false);
  });

  it.each(Object.keys(OPTIONAL))('may lack %s, which is then absent, not null [C-4.3]', (field) => {
    const { [field as keyof typeof OPTIONAL]: _left, ...rest } = OPTIONAL;
    expect(accepts(rest)).toBe(true);
    expect(accepts({ ...rest, [field]: null })).toBe(false);
    expect(accepts({ ...rest, [field]: {} })).toBe(false);
  });

  it.each(['correlationId', 'target', 'keyPrefix'])('may have null for %s [C-4.3]', (field) => {
    expect(accepts({ [field]: null })).toBe(true);
  });

  it.each(['signature', 'keyId', 'sequence', 'error'])('cannot have the field %s [C-4.3]', (field) => {
    expect(accepts({ [field]: 'x' })).toBe(false);
  });

  it('has a type, status, priority and rejection code of the closed lists, and no other value [C-4.3]', () => {
    const lists = {
      commandType: COMMAND_TYPES,
      status: COMMAND_STATUSES,
      priority: PRIORITIES,
      rejectionCode: REJECTION_CODES,
    };
    for (const [field, words] of Object.entries(lists)) {
      for (const word of words) expect([word, accepts({ [field]: word })]).toEqual([word, true]);
      for (const word of ['OTHER', '', words[0].toLowerCase()]) {
        expect([field, word, accepts({ [field]: word })]).toEqual([field, word, false]);
      }
    }
    expect([...COMMAND_STATUSES].sort()).toEqual(
      ['PENDING', 'EXECUTING', 'COMPLETED', 'DEVIATED', 'FAILED', 'REJECTED'].sort(),
    );
  });

  it.each([
    ['an array', []],
    ['a text', '{}'],
    ['null', null],
  ])('requires an object as payload, not %s [C-4.3]', (_what, payload) => {
    expect(accepts({ payload })).toBe(false);
  });
});

describe('a result in the command log', () => {
  const acceptsResult = (changes: Record<string, unknown>) =>
    accepts({ results: [{ ...RESULT, ...changes }] });

  it('may be ACCEPTED, QUEUED, or REJECTED with a code and a message, as in an acknowledgement [C-7.5]', () => {
    expect(acceptsResult({})).toBe(true);
    expect(acceptsResult({ status: 'QUEUED' })).toBe(true);
    expect(acceptsResult({ status: 'REJECTED', rejectionCode: 'DEVICE_FAULT', message: 'why' })).toBe(true);
    expect(accepts({ results: [] })).toBe(true);
  });

  it.each<[string, Record<string, unknown>]>([
    ['an unknown field', { device: 'x' }],
    ['no index', { index: undefined }],
    ['a negative index', { index: -1 }],
    ['half an index', { index: 0.5 }],
    ['the status of a whole command', { status: 'PARTIAL' }],
    ['an unknown command', { command: 'REBOOT' }],
    ['an unknown code', { rejectionCode: 'OTHER' }],
    ['null for a code', { rejectionCode: null }],
  ])('is refused with %s [C-7.5]', (_what, changes) => {
    expect(acceptsResult(changes)).toBe(false);
  });
});
