/**
 * Compares the plan of a site with a small model of it. Random steps are commands, schedules, limits, fallbacks, acks,
 * telemetry, leaps of the clock, evictions, disconnected gateways and repeated messages; each step is followed by the
 * checks [C-7.3], [C-7.7], [C-7.8].
 */
import fc from 'fast-check';
import { expect, inject, it } from 'vitest';
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { PlanWorld } from './plan-world.ts';
import { holdClock, MINUTE, SECOND } from './site-clock.ts';

const STEPS_PER_RUN = 200;
const LIMIT_KW = 100;

const priority = fc.constantFrom('NORMAL', 'NORMAL', 'HIGH', 'HIGH', 'EMERGENCY');
const ack = fc.constantFrom<DeviceAckStatus[]>('RECEIVED', 'IN_PROGRESS', 'COMPLETED', 'COMPLETED', 'FAILED');
const ahead = fc.constantFrom(0, 0, 0, -MINUTE, 10 * SECOND, 2 * MINUTE, 20 * MINUTE);
const lasting = fc.constantFrom(null, null, 5 * SECOND, 45 * SECOND, 4 * MINUTE, 30 * MINUTE);

const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('setpoint'),
      priority,
      ahead,
      lasting,
      isOver: fc.boolean(),
      isEnergy: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('charge'),
      kw: fc.integer({ min: 1, max: 70 }),
      battery: fc.constantFrom('BESS-1', 'BESS-2'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('emergency'), type: fc.constantFrom('STOP', 'HOLD') }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('mode'),
      mode: fc.constantFrom('STANDARD', 'PEAK_SHAVING'),
      lasting,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('limit'), share: fc.constantFrom(0, 0.7, 1, 1, 1, 1) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('schedule'),
      ahead: fc.constantFrom(0, 0, 0, -90 * SECOND, -30 * SECOND, 20 * SECOND, 2 * MINUTE, 20 * MINUTE),
      slots: fc.array(fc.constantFrom('kw', 'kw', 'kw', 'kw', 'kw', 'mode', 'over'), {
        minLength: 1,
        maxLength: 6,
      }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel'), pick: fc.nat() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('fallback'), after: fc.constantFrom(null, 30, 60, 300) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('runsAlone'), active: fc.constantFrom(0, 0, 1) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('repeat'), pick: fc.nat() }) },
  { weight: 9, arbitrary: fc.record({ kind: fc.constant('answer'), pick: fc.nat(), status: ack }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('answerAll') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('answerAgain'), pick: fc.nat() }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('telemetry'), kw: fc.integer({ min: -90, max: 110 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('pass'),
      ms: fc.constantFrom(1, SECOND, SECOND, 10 * SECOND, 10 * SECOND, 31 * SECOND, MINUTE, 6 * MINUTE),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('leap'),
      ms: fc.constantFrom(5 * SECOND, 3 * MINUTE, 40 * MINUTE),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('evict') }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('leave') }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('come') }) },
);
type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;

async function take(world: PlanWorld, one: Step): Promise<void> {
  switch (one.kind) {
    case 'setpoint': {
      const { now } = world;
      const fromMs = now + one.ahead;
      const untilMs = one.lasting === null ? null : Math.max(now, fromMs) + one.lasting;
      const validUntil = untilMs === null ? {} : { validUntil: formatInstant(untilMs) };
      const kw = world.nextKw() + (one.isOver ? LIMIT_KW : 0);
      const target = one.isEnergy
        ? { type: 'ENERGY' as const, targetValueKwh: kw / 4, intervalMinutes: 15 }
        : { type: 'POWER' as const, targetValueKw: kw };
      const common = { direction: 'IMPORT', includeConsumption: true, priority: one.priority };
      const validFrom = formatInstant(fromMs);
      return world.submitSetpoint({ ...target, ...common, validFrom, ...validUntil }, fromMs, untilMs);
    }
    case 'charge':
      return world.submitCharge(one.battery, one.kw);
    case 'emergency':
      return world.submitEmergency(one.type);
    case 'mode':
      return world.submitMode(one.mode, one.lasting);
    case 'limit':
      return world.submitLimit(one.share);
    case 'schedule':
      return world.submitSchedule(one.ahead, one.slots);
    case 'cancel':
      return world.cancelSchedule(one.pick);
    case 'fallback':
      return world.submitFallback(one.after);
    case 'runsAlone':
      return world.sendFallback(one.active);
    case 'repeat':
      return world.repeat(one.pick);
    case 'answer':
      return world.answer(one.pick, one.status);
    case 'answerAll':
      return world.answerAll();
    case 'answerAgain':
      return world.answerAgain(one.pick);
    case 'telemetry':
      return world.sendTelemetry(one.kw);
    case 'pass':
      return world.pass(one.ms);
    case 'leap':
      return world.leap(one.ms);
    case 'evict':
      return world.evict();
    case 'leave':
      return world.leave();
    case 'come':
      return world.come();
  }
}

/** How many test files run a part of the walk at the same time. */
const WALKS = 2;

/** Runs one part of the walk, with its share of the steps and its own seed. */
export function walkModel(walk: number): void {
  holdClock();
  it('does what the model predicts after any random steps [C-7.7]', {
    timeout: 24 * 60 * MINUTE,
  }, async () => {
    const wanted = Math.ceil(inject('modelSteps') / WALKS);
    const seed = inject('modelSeed') * WALKS + walk;
    let steps = 0;
    const runs = fc.array(step, { minLength: STEPS_PER_RUN, maxLength: STEPS_PER_RUN, size: 'max' });
    const property = fc.asyncProperty(runs, async (all) => {
      const world = await PlanWorld.open(LIMIT_KW);
      for (const one of all) {
        await take(world, one as Step);
        await world.check();
        steps += 1;
      }
      await world.end();
    });
    await fc.assert(property, { seed, numRuns: Math.ceil(wanted / STEPS_PER_RUN), endOnFailure: true });
    console.log(`plan model: ${steps} steps, seed ${seed}`);
    expect(steps).toBeGreaterThanOrEqual(wanted);
  });
}
