/** The plan stack: the active setpoint at a time, the setpoints that end, and the next change by time. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll, forMany } from '#support/property.ts';
import {
  isAlreadySent,
  isOpen,
  LEVELS,
  type Level,
  nextChangeMs,
  type PlanEntry,
  stackAt,
  type Target,
  targetOf,
} from '../../../../durable-objects/site/plan/stack.ts';
import type { ActiveEmergency } from '../../../../durable-objects/site/site-view.ts';

/** Entries in the order of their sequences; [from, to), with null for an open end. */
function entry(
  sequence: number,
  level: Level,
  startsAtMs: number,
  endsAtMs: number | null = null,
): PlanEntry {
  return { sequence, level, startsAtMs, endsAtMs };
}

function topAt(entries: readonly PlanEntry[], now: number): number | undefined {
  return stackAt(entries, now).top?.sequence;
}

/** Each replacement as `older < newer`, ordered by the older. */
function replacedAt(entries: readonly PlanEntry[], now: number): string[] {
  const { replaced } = stackAt(entries, now);
  return replaced
    .sort((left, right) => left.entry.sequence - right.entry.sequence)
    .map(({ entry: older, by }) => `${older.sequence} < ${by}`);
}

function overAt(entries: readonly PlanEntry[], now: number): number[] {
  return stackAt(entries, now).over.map(({ sequence }) => sequence);
}

describe('setpoints of different levels', () => {
  it('EMERGENCY is above HIGH and NORMAL, in that order, in any order of arrival [C-7.7]', () => {
    expect(LEVELS).toEqual(['EMERGENCY', 'HIGH', 'NORMAL']);
    for (const [index, level] of LEVELS.entries()) {
      for (const lower of LEVELS.slice(index + 1)) {
        expect(topAt([entry(1, level, 0), entry(2, lower, 0)], 5)).toBe(1);
        expect(topAt([entry(1, lower, 0), entry(2, level, 0)], 5)).toBe(2);
      }
    }
  });

  it('a higher setpoint only hides a lower one, which is active again when the higher one ends [C-7.7]', () => {
    const entries = [entry(1, 'NORMAL', 0), entry(2, 'HIGH', 10, 40), entry(3, 'EMERGENCY', 20, 30)];
    expect([5, 15, 25, 35, 45].map((now) => topAt(entries, now))).toEqual([1, 2, 3, 2, 1]);
    expect(replacedAt(entries, 45)).toEqual([]);
  });
});

describe('setpoints of the same level', () => {
  it('a newer setpoint replaces the older permanently from its own start, not before [C-7.7]', () => {
    for (const level of LEVELS) {
      const entries = [entry(1, level, 0), entry(2, level, 10, 20)];
      expect(topAt(entries, 9)).toBe(1);
      expect(replacedAt(entries, 9)).toEqual([]);
      expect(topAt(entries, 10)).toBe(2);
      expect(replacedAt(entries, 10)).toEqual(['1 < 2']);
    }
  });

  it('a replaced setpoint does not return after the newer has ended, even if the plan was not evaluated meanwhile [C-7.7]', () => {
    const entries = [entry(1, 'HIGH', 0), entry(2, 'HIGH', 10, 20), entry(3, 'NORMAL', 0)];
    expect(topAt(entries, 25)).toBe(3);
    expect(replacedAt(entries, 25)).toEqual(['1 < 2']);
    expect(overAt(entries, 25)).toEqual([2]);
  });

  it('an older setpoint that starts while a newer one is active is replaced at that moment [C-7.7]', () => {
    const entries = [entry(1, 'NORMAL', 10), entry(2, 'NORMAL', 0, 30)];
    expect(topAt(entries, 5)).toBe(2);
    expect(replacedAt(entries, 5)).toEqual([]);
    expect(topAt(entries, 10)).toBe(2);
    expect(replacedAt(entries, 10)).toEqual(['1 < 2']);
    expect(topAt(entries, 30)).toBeUndefined();
  });

  it('the newest of several setpoints that start together replaces all others [C-7.7]', () => {
    const entries = [entry(3, 'HIGH', 10), entry(1, 'HIGH', 0), entry(2, 'HIGH', 10)];
    expect(topAt(entries, 10)).toBe(3);
    expect(replacedAt(entries, 10)).toEqual(['1 < 3', '2 < 3']);
  });

  it('each setpoint is replaced by the newest one at that moment [C-7.7]', () => {
    const entries = [entry(1, 'HIGH', 0), entry(2, 'HIGH', 10), entry(3, 'HIGH', 20)];
    expect(replacedAt(entries, 25)).toEqual(['1 < 2', '2 < 3']);
  });

  it('setpoints whose windows do not overlap replace nothing, even if one ends where the other starts [C-7.7]', () => {
    const entries = [entry(1, 'NORMAL', 0, 10), entry(2, 'NORMAL', 10, 20), entry(3, 'NORMAL', 30, 40)];
    expect([0, 9, 10, 19, 30, 39].map((now) => topAt(entries, now))).toEqual([1, 1, 2, 2, 3, 3]);
    for (const now of [20, 40]) expect(topAt(entries, now)).toBeUndefined();
    expect(replacedAt(entries, 50)).toEqual([]);
    expect(overAt(entries, 50)).toEqual([1, 2, 3]);
  });

  it('a setpoint below a higher level is replaced too [C-7.7]', () => {
    const entries = [entry(1, 'NORMAL', 0), entry(2, 'HIGH', 0, 30), entry(3, 'NORMAL', 10, 20)];
    expect(topAt(entries, 15)).toBe(2);
    expect(replacedAt(entries, 15)).toEqual(['1 < 3']);
    expect(topAt(entries, 30)).toBeUndefined();
  });

  it('a setpoint of another level replaces nothing [C-7.7]', () => {
    expect(replacedAt([entry(1, 'NORMAL', 0), entry(2, 'HIGH', 0), entry(3, 'EMERGENCY', 0)], 5)).toEqual([]);
  });
});

describe('a window', () => {
  it('includes its start and excludes its end [C-7.7]', () => {
    const entries = [entry(1, 'HIGH', 10, 20)];
    expect([9, 10, 19, 20].map((now) => topAt(entries, now))).toEqual([undefined, 1, 1, undefined]);
    expect([9, 10, 19, 20].map((now) => overAt(entries, now))).toEqual([[], [], [], [1]]);
  });

  it('stays open without an end until a newer setpoint replaces it [C-7.7]', () => {
    const entries = [entry(1, 'NORMAL', 0)];
    expect(topAt(entries, Number.MAX_SAFE_INTEGER)).toBe(1);
    expect(overAt(entries, Number.MAX_SAFE_INTEGER)).toEqual([]);
    expect(topAt([...entries, entry(2, 'NORMAL', 50)], 60)).toBe(2);
  });

  it('an empty stack has no active setpoint [C-7.7]', () => {
    expect(stackAt([], 5)).toEqual({ top: undefined, over: [], replaced: [] });
  });
});

/** The state of a site that evaluates its plan at each of the given moments and removes ended entries. */
function stateAt(entries: readonly PlanEntry[], moments: readonly number[], now: number) {
  const replaced = new Map<number, number>();
  let left = [...entries];
  let top: PlanEntry | undefined;
  for (const atMs of [...moments, now]) {
    const standing = stackAt(left, atMs);
    for (const { entry: older, by } of standing.replaced) replaced.set(older.sequence, by);
    const ended = new Set([...standing.over, ...standing.replaced.map((one) => one.entry)]);
    left = left.filter((one) => !ended.has(one));
    top = standing.top;
  }
  return { top: top?.sequence, replaced: [...replaced].sort(([left], [right]) => left - right) };
}

const someEntries = fc
  .array(
    fc.record({
      level: fc.constantFrom(...LEVELS),
      startsAtMs: fc.integer({ min: 0, max: 12 }),
      lastsMs: fc.option(fc.integer({ min: 1, max: 12 })),
    }),
    { maxLength: 10 },
  )
  .map((some) =>
    some.map(({ level, startsAtMs, lastsMs }, index) =>
      entry(index + 1, level, startsAtMs, lastsMs === null ? null : startsAtMs + lastsMs),
    ),
  );

function boundariesOf(entries: readonly PlanEntry[], until: number): number[] {
  const all = entries.flatMap(({ startsAtMs, endsAtMs }) => [startsAtMs, endsAtMs ?? startsAtMs]);
  return [...new Set(all)].filter((atMs) => atMs <= until).sort((left, right) => left - right);
}

describe('any plan at any time', () => {
  it('a site that slept past several starts has the same state as one awake for each of them [C-7.7]', () => {
    forMany(500, someEntries, fc.integer({ min: 0, max: 26 }), (entries, now) => {
      const asleep = stateAt(entries, [], now);
      expect(asleep).toEqual(stateAt(entries, boundariesOf(entries, now), now));
    });
  });

  it('a site that slept past some starts and ends has the same state as one that slept past all of them [C-7.7]', () => {
    const awake = fc.array(fc.boolean(), { minLength: 20, maxLength: 20 });
    forMany(500, someEntries, awake, fc.integer({ min: 0, max: 26 }), (entries, isAwake, now) => {
      const some = boundariesOf(entries, now).filter((_atMs, index) => isAwake[index]);
      expect(stateAt(entries, some, now)).toEqual(stateAt(entries, [], now));
    });
  });

  it('the active setpoint is the newest open entry of the highest level that was not replaced [C-7.7]', () => {
    forAll(someEntries, fc.integer({ min: 0, max: 26 }), (entries, now) => {
      const { top, replaced } = stackAt(entries, now);
      const gone = new Set(replaced.map((one) => one.entry));
      const open = entries.filter(
        (one) => one.startsAtMs <= now && (one.endsAtMs === null || now < one.endsAtMs) && !gone.has(one),
      );
      const rank = ({ level }: PlanEntry) => LEVELS.indexOf(level);
      const [best] = open.sort((left, right) => rank(left) - rank(right) || right.sequence - left.sequence);
      expect(top).toBe(best);
    });
  });

  it('an entry is replaced only if it overlapped a newer one of its level, and no two of one level stay open [C-7.7]', () => {
    forAll(someEntries, fc.integer({ min: 0, max: 26 }), (entries, now) => {
      const gone = stackAt(entries, now).replaced;
      const left = entries.filter((one) => gone.every((two) => two.entry !== one) && isOpen(one, now));
      expect(new Set(left.map(({ level }) => level)).size).toBe(left.length);
      for (const { entry: older, by } of gone) {
        const newer = entries.find(({ sequence }) => sequence === by);
        if (!newer) throw new Error(`${by} is unknown`);
        const metAtMs = Math.max(older.startsAtMs, newer.startsAtMs);
        expect(newer.level).toBe(older.level);
        expect(newer.sequence).toBeGreaterThan(older.sequence);
        expect(metAtMs).toBeLessThanOrEqual(now);
        expect(metAtMs).toBeLessThan(older.endsAtMs ?? Number.POSITIVE_INFINITY);
        expect(metAtMs).toBeLessThan(newer.endsAtMs ?? Number.POSITIVE_INFINITY);
      }
    });
  });
});

describe('the target of the plant', () => {
  const stop: ActiveEmergency = { sequence: 9, type: 'STOP' };
  const slot = { sequence: 7, slotIndex: 3 };
  const targetFor = (level: Level | undefined, emergency?: ActiveEmergency, at?: typeof slot): Target =>
    targetOf(level && entry(1, level, 0), emergency, at, 'ZERO_EXPORT');

  it('the target is the active setpoint, or else the mode in force, if there is neither emergency nor slot [C-7.7]', () => {
    for (const level of LEVELS) expect(targetFor(level)).toEqual({ by: 'entry', sequence: 1 });
    expect(targetFor(undefined)).toEqual({ by: 'mode', mode: 'ZERO_EXPORT' });
  });

  it('an emergency is above every setpoint except EMERGENCY [C-7.7]', () => {
    expect(targetFor('EMERGENCY', stop)).toEqual({ by: 'entry', sequence: 1 });
    for (const level of ['HIGH', 'NORMAL', undefined] as const) {
      for (const at of [undefined, slot]) {
        expect(targetFor(level, stop, at)).toEqual({ by: 'emergency', sequence: 9 });
      }
    }
  });

  it('the slot of a schedule is above NORMAL and below HIGH [C-7.7]', () => {
    for (const level of ['NORMAL', undefined] as const)
      expect(targetFor(level, undefined, slot)).toEqual({ by: 'slot', ...slot });
    for (const level of ['EMERGENCY', 'HIGH'] as const)
      expect(targetFor(level, undefined, slot)).toEqual({ by: 'entry', sequence: 1 });
    expect(targetFor('EMERGENCY', stop, slot)).toEqual({ by: 'entry', sequence: 1 });
  });

  it('two targets are the same only for the same entry, slot, emergency or mode [C-7.7]', () => {
    const targets: Target[] = [
      { by: 'entry', sequence: 1 },
      { by: 'entry', sequence: 2 },
      { by: 'slot', sequence: 1, slotIndex: 1 },
      { by: 'slot', sequence: 1, slotIndex: 2 },
      { by: 'slot', sequence: 2, slotIndex: 1 },
      { by: 'emergency', sequence: 1 },
      { by: 'emergency', sequence: 2 },
      { by: 'mode', mode: 'STANDARD' },
      { by: 'mode', mode: 'ZERO_EXPORT' },
    ];
    for (const [index, one] of targets.entries()) {
      for (const [at, other] of targets.entries()) {
        expect(isAlreadySent(one, { ...other })).toBe(index === at);
      }
    }
  });

  it('a mode target needs no sending if nothing was sent yet or a mode is unanswered [C-7.7]', () => {
    const mode = { by: 'mode', mode: 'STANDARD' } as const;
    const unanswered = { by: 'unanswered mode', sequence: 3, mode: 'MAX_EXPORT' } as const;
    for (const targetFor of [undefined, unanswered]) {
      expect(isAlreadySent(targetFor, mode)).toBe(true);
      expect(isAlreadySent(targetFor, { by: 'entry', sequence: 3 })).toBe(false);
      expect(isAlreadySent(targetFor, { by: 'slot', sequence: 3, slotIndex: 0 })).toBe(false);
      expect(isAlreadySent(targetFor, { by: 'emergency', sequence: 3 })).toBe(false);
    }
  });
});

describe('the next change', () => {
  const entries = [entry(1, 'NORMAL', 10), entry(2, 'HIGH', 20, 30), entry(3, 'EMERGENCY', 5, 40)];

  it('is the next start or end, never the present moment [C-7.7]', () => {
    expect([0, 5, 10, 20, 29, 30].map((now) => nextChangeMs(entries, now))).toEqual([5, 10, 20, 30, 30, 40]);
    expect(nextChangeMs(entries, 40)).toBeUndefined();
  });

  it('is undefined if no entry starts or ends later [C-7.7]', () => {
    expect(nextChangeMs([], 0)).toBeUndefined();
    expect(nextChangeMs([entry(1, 'NORMAL', 0)], 0)).toBeUndefined();
  });

  it('the active setpoint does not change before the next change [C-7.7]', () => {
    forAll(someEntries, fc.integer({ min: 0, max: 26 }), (some, now) => {
      const next = nextChangeMs(some, now) ?? 30;
      for (let atMs = now; atMs < next; atMs++) expect(topAt(some, atMs)).toBe(topAt(some, now));
    });
  });
});
