/** Random commands of all kinds: valid ones, and ones that break each rule [C-7.4]. */
import fc from 'fast-check';
import type { Submission } from '../../../durable-objects/rpc.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { CommandFamily } from '../../../protocol/routing-keys.ts';
import type { SignatureVerdict } from '../../../protocol/signing.ts';
import { MINUTE, SECOND } from './site-clock.ts';
import { submission } from './site-submissions.ts';

/** A submission, given the time and the messageIds that were used before. */
export type Draft = (now: number, used: readonly string[]) => Submission;

const MODES = ['STANDARD', 'STANDARD', 'PEAK_SHAVING', 'MAX_EXPORT', 'NO_MODE'];
const kw = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 60 }) },
  { weight: 3, arbitrary: fc.integer({ min: 40, max: 130 }) },
  { weight: 1, arbitrary: fc.double({ min: 0, max: 130, noNaN: true }) },
  { weight: 1, arbitrary: fc.constantFrom(-1, 1e10, 'many') },
);

const setpoint = fc
  .record({
    type: fc.constantFrom('POWER', 'POWER', 'POWER', 'ENERGY', 'NONE'),
    value: kw,
    intervalMinutes: fc.constantFrom(15, 7, 60, 0),
    direction: fc.constantFrom('IMPORT', 'IMPORT', 'EXPORT'),
    priority: fc.constantFrom('NORMAL', 'NORMAL', 'HIGH', 'EMERGENCY'),
    inMs: fc.constantFrom(0, 0, 0, -MINUTE, MINUTE, 30 * MINUTE),
    forMs: fc.constantFrom(undefined, 30 * SECOND, 5 * MINUTE, 60 * MINUTE, -2 * MINUTE),
  })
  .map(({ type, value, intervalMinutes, direction, priority, inMs, forMs }) => (now: number) => ({
    family: 'site-setpoint' as const,
    payload: {
      ...{ type, direction, priority, includeConsumption: true, validFrom: formatInstant(now + inMs) },
      ...(type === 'POWER' ? { targetValueKw: value } : { targetValueKwh: value, intervalMinutes }),
      ...(forMs === undefined ? {} : { validUntil: formatInstant(now + inMs + forMs) }),
    },
  }));

const item = fc
  .record({
    deviceId: fc.constantFrom('BESS-1', 'BESS-1', 'BESS-2', 'FVE-1', 'NONE'),
    assetType: fc.constantFrom('BESS', 'BESS', 'BESS', 'FVE'),
    command: fc.constantFrom(
      ...(['BESS_CHARGE', 'BESS_CHARGE', 'BESS_DISCHARGE', 'BESS_STOP'] as const),
      ...(['BESS_CHARGE_ONLY', 'FVE_REDUCE_PERCENT', 'FVE_REDUCE_POWER', 'NO_COMMAND'] as const),
    ),
    powerKw: fc.oneof(kw, fc.constant(undefined)),
    percent: fc.constantFrom(undefined, 50, 100),
  })
  .map(({ powerKw, percent, ...rest }) => ({
    ...rest,
    params: {
      ...(powerKw === undefined ? {} : { powerKw }),
      ...(percent === undefined ? {} : { percent }),
    },
  }));
const batchOf = fc
  .array(item, { minLength: 1, maxLength: 4 })
  .map((commands) => () => ({ family: 'device' as const, payload: { commands } }));

const mode = fc
  .record({ mode: fc.constantFrom(...MODES), forMs: fc.constantFrom(undefined, 5 * MINUTE, -MINUTE) })
  .map(({ mode: name, forMs }) => (now: number) => ({
    family: 'mode' as const,
    payload: { mode: name, ...(forMs === undefined ? {} : { validUntil: formatInstant(now + forMs) }) },
  }));

const emergency = fc
  .constantFrom('STOP', 'HOLD', 'NONE')
  .map((type) => () => ({ family: 'emergency' as const, payload: { type } }));

const schedule = fc
  .record({
    inMs: fc.constantFrom(0, -10 * MINUTE, 5 * MINUTE, -120 * MINUTE),
    slots: fc.array(
      fc.record({ value: fc.integer({ min: -100, max: 120 }), mode: fc.constantFrom(...MODES) }),
      {
        minLength: 1,
        maxLength: 6,
      },
    ),
    isShifted: fc.boolean(),
  })
  .map(({ inMs, slots, isShifted }) => (now: number) => ({
    family: 'schedule' as const,
    payload: {
      startTime: formatInstant(now + inMs),
      slotDurationMinutes: 5,
      slots: slots.map(({ value, mode: name }, index) => ({
        ...{ slotIndex: isShifted && slots.length > 4 ? index + 1 : index, mode: name },
        ...(value === 0 ? {} : { setpoint: { value } }),
      })),
    },
  }));

const config = fc
  .record({
    name: fc.constantFrom('maxImportKw', 'maxExportKw', 'maxChargeKw', 'maxSocPercent', 'minSocPercent'),
    value: fc.constantFrom(null, 20, 50, 80, 99, 110, -1),
  })
  .map(({ name, value }) => () => ({
    family: 'config' as const,
    payload: { constraints: { [name]: value } },
  }));

const signature = fc.constantFrom<SignatureVerdict[]>(
  ...(['valid', 'valid', 'valid', 'valid', 'valid', 'valid'] as const),
  ...(['not-needed', 'missing', 'mismatch'] as const),
);
/** How the messageId is chosen: a new one, or one that was used before. */
const identity = fc.constantFrom('new', 'new', 'new', 'new', 'new', 'used');
const lateMs = fc.constantFrom(0, 0, 0, 0, 20 * MINUTE, -20 * MINUTE);

/** A command of a random kind. */
export const randomCommand: fc.Arbitrary<Draft> = fc
  .record({
    make: fc.oneof(
      { weight: 8, arbitrary: setpoint },
      { weight: 8, arbitrary: batchOf },
      { weight: 2, arbitrary: mode },
      { weight: 1, arbitrary: emergency },
      { weight: 3, arbitrary: schedule },
      { weight: 1, arbitrary: config },
    ),
    ...{ signature, identity, lateMs },
    pick: fc.nat(),
    word: fc.constantFrom('set', 'set', 'set', 'set', 'none'),
  })
  .map(
    ({ make, signature: verdict, identity: kind, lateMs: late, pick, word }): Draft =>
      (now, used) => {
        const { family, payload } = make(now) as { family: CommandFamily; payload: object };
        const again = kind === 'used' ? used[pick % Math.max(1, used.length)] : undefined;
        const command = submission(family, payload, {
          ...{ signature: verdict, timestampMs: now - late },
          ...(again === undefined ? {} : { messageId: again }),
        });
        const routingKey = command.routingKey.replace(/\.set$/, `.${word}`);
        return { ...command, routingKey };
      },
  );
