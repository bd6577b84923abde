/** One alert rule as a state machine: when an alert begins, begins again and ends, to the millisecond [C-9]. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  dueMs,
  meets,
  type Rule,
  type RuleState,
  type RuleStep,
  stepRule,
} from '../../../../durable-objects/site/alert/rule.ts';
import { ALERT_OPERATORS, type AlertOperator } from '../../../../protocol/alert.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');
const SECOND = 1_000;
const MINUTE = 60 * SECOND;

function rule(changes: Partial<Rule> = {}): Rule {
  return { operator: 'GT', threshold: 10, forSeconds: 0, cooldownSeconds: 300, ...changes };
}

/** A rule that is fed what holds when, with ids in order: `a1`, `a2`, … */
class Walk {
  readonly #rule: Rule;
  state: RuleState = {};
  readonly told: [atMs: number, change: string, id: string | undefined][] = [];
  #ids = 0;

  constructor(of: Partial<Rule> = {}) {
    this.#rule = rule(of);
  }

  feed(holds: boolean, atMs: number): RuleStep['change'] {
    const before = this.state.open?.id;
    const newId = () => `a${++this.#ids}`;
    const { state, change } = stepRule(this.#rule, this.state, holds, NOW_MS + atMs, newId);
    this.state = state;
    if (change) this.told.push([atMs, change, state.open?.id ?? before]);
    return change;
  }
}

describe('a condition', () => {
  it.each<[AlertOperator, readonly [under: boolean, equal: boolean, over: boolean]]>([
    ['GT', [false, false, true]],
    ['GTE', [false, true, true]],
    ['LT', [true, false, false]],
    ['LTE', [true, true, false]],
    ['EQ', [false, true, false]],
    ['NE', [true, false, true]],
    ['ABSENT', [false, false, false]],
  ])('%s is met by values under, at and over its threshold as it says [C-9]', (operator, expected) => {
    const met = (threshold: number) =>
      [-1, 0, 1].map((by) => meets(rule({ operator, threshold }), threshold + by));
    for (const threshold of [10, 0, -10]) expect(met(threshold)).toEqual(expected);
  });

  it('is one of those that the protocol names [C-9]', () => {
    expect(ALERT_OPERATORS).toEqual(['GT', 'GTE', 'LT', 'LTE', 'EQ', 'NE', 'ABSENT']);
  });
});

describe('an alert begins', () => {
  it('with the first reading that meets a rule of no duration, and is remembered as open [C-9]', () => {
    const walk = new Walk();
    expect(walk.feed(false, 0)).toBeUndefined();
    expect(walk.state).toEqual({});
    expect(walk.feed(true, SECOND)).toBe('opened');
    const at = NOW_MS + SECOND;
    expect(walk.state).toEqual({
      sinceMs: at,
      open: { id: 'a1', firstSeenMs: at, count: 1, reportedMs: at },
    });
  });

  it('once the condition held for forSeconds, not a millisecond before, and says since when [C-9]', () => {
    const walk = new Walk({ forSeconds: 60 });
    expect(walk.feed(true, 0)).toBeUndefined();
    expect(walk.feed(true, MINUTE - 1)).toBeUndefined();
    expect(walk.feed(true, MINUTE)).toBe('opened');
    expect(walk.state.open).toMatchObject({ firstSeenMs: NOW_MS, count: 1 });
  });

  it('not while one reading in between did not meet it: the time begins anew [C-9]', () => {
    const walk = new Walk({ forSeconds: 60 });
    walk.feed(true, 0);
    walk.feed(false, MINUTE - 1);
    expect(walk.state).toEqual({});
    expect(walk.feed(true, MINUTE)).toBeUndefined();
    expect(walk.feed(true, 2 * MINUTE - 1)).toBeUndefined();
    expect(walk.feed(true, 2 * MINUTE)).toBe('opened');
    expect(walk.state.open?.firstSeenMs).toBe(NOW_MS + MINUTE);
  });

  it('no sooner than the cooldown after the last ended, and then at once where it held for long [C-9]', () => {
    const walk = new Walk({ forSeconds: 60, cooldownSeconds: 300 });
    for (const [holds, atMs] of [
      [true, 0],
      [true, MINUTE],
      [false, 2 * MINUTE],
      [false, 3 * MINUTE],
    ] as const)
      walk.feed(holds, atMs);
    expect(walk.state).toEqual({ notBeforeMs: NOW_MS + 8 * MINUTE });
    expect(walk.feed(true, 4 * MINUTE)).toBeUndefined();
    expect(walk.feed(true, 8 * MINUTE - 1)).toBeUndefined();
    expect(walk.feed(true, 8 * MINUTE)).toBe('opened');
    expect(walk.state.open).toMatchObject({ id: 'a2', firstSeenMs: NOW_MS + 4 * MINUTE, count: 1 });
    expect(walk.state.notBeforeMs).toBeUndefined();
  });
});

describe('an open alert', () => {
  it('ends once its condition was gone for forSeconds, not a millisecond before [C-9]', () => {
    const walk = new Walk({ forSeconds: 60 });
    walk.feed(true, 0);
    walk.feed(true, MINUTE);
    expect(walk.feed(false, 2 * MINUTE)).toBeUndefined();
    expect(walk.feed(false, 3 * MINUTE - 1)).toBeUndefined();
    expect(walk.feed(false, 3 * MINUTE)).toBe('resolved');
    expect(walk.state).toEqual({ notBeforeMs: NOW_MS + 8 * MINUTE });
  });

  it('ends at once where the rule has no duration [C-9]', () => {
    const walk = new Walk();
    walk.feed(true, 0);
    expect(walk.feed(false, 1)).toBe('resolved');
  });

  it('counts each time its condition begins again, and never while it goes on [C-9]', () => {
    const walk = new Walk({ forSeconds: 600 });
    walk.feed(true, 0);
    walk.feed(true, 10 * MINUTE);
    for (let time = 1; time <= 3; time++) {
      const fromMs = 10 * MINUTE + time * 2 * MINUTE;
      walk.feed(false, fromMs);
      expect(walk.feed(true, fromMs + MINUTE)).toBe('again');
      expect(walk.state.open).toMatchObject({ id: 'a1', count: time + 1 });
      expect(walk.feed(true, fromMs + MINUTE + SECOND)).toBeUndefined();
    }
    expect(walk.told.map(([, change]) => change)).toEqual(['opened', 'again', 'again', 'again']);
  });

  it('whose condition comes and goes with each reading counts them all, and tells once a minute (rule 9)', () => {
    const walk = new Walk({ forSeconds: 60 });
    walk.feed(true, 0);
    walk.feed(true, MINUTE);
    for (let second = 1; second <= 600; second++) walk.feed(second % 2 === 0, MINUTE + second * SECOND);
    expect(walk.state.open?.count).toBe(301);
    const again = walk.told.filter(([, change]) => change === 'again').map(([atMs]) => atMs);
    expect(again).toEqual(Array.from({ length: 10 }, (_none, index) => (index + 2) * MINUTE));
  });
});

describe('when time alone changes a rule next', () => {
  it('is never for one that waits for readings, and when what is gone has been so for long [C-9]', () => {
    const over = rule({ forSeconds: 60 });
    const open = { id: 'a1', firstSeenMs: NOW_MS, count: 1, reportedMs: NOW_MS };
    expect(dueMs(over, {}, NOW_MS)).toBeUndefined();
    expect(dueMs(over, { sinceMs: NOW_MS }, NOW_MS)).toBeUndefined();
    expect(dueMs(over, { sinceMs: NOW_MS, open }, NOW_MS)).toBeUndefined();
    expect(dueMs(over, { goneMs: NOW_MS, open }, NOW_MS)).toBe(NOW_MS + MINUTE);
  });

  it('is, for one about what is absent, so long after it was heard, and no sooner than its cooldown [C-9]', () => {
    const absent = rule({ operator: 'ABSENT', threshold: null, forSeconds: 300 });
    const open = { id: 'a1', firstSeenMs: NOW_MS, count: 1, reportedMs: NOW_MS };
    expect(dueMs(absent, {}, NOW_MS)).toBe(NOW_MS + 5 * MINUTE);
    const notBeforeMs = NOW_MS + 7 * MINUTE;
    expect(dueMs(absent, { notBeforeMs }, NOW_MS)).toBe(notBeforeMs);
    expect(dueMs(absent, { open }, NOW_MS)).toBeUndefined();
    expect(dueMs(absent, { goneMs: NOW_MS, open }, NOW_MS)).toBe(NOW_MS + 5 * MINUTE);
  });
});

describe('over whatever comes', () => {
  const walks = fc.record({
    forSeconds: fc.integer({ min: 0, max: 120 }),
    cooldownSeconds: fc.integer({ min: 60, max: 600 }),
    steps: fc.array(fc.record({ holds: fc.boolean(), afterMs: fc.integer({ min: 0, max: 200_000 }) }), {
      maxLength: 60,
    }),
  });

  it('one is open at most, none begins before the last has ended, and each keeps its cooldown [C-9]', () => {
    fc.assert(
      fc.property(walks, ({ forSeconds, cooldownSeconds, steps }) => {
        const walk = new Walk({ forSeconds, cooldownSeconds });
        let atMs = 0;
        for (const { holds, afterMs } of steps) {
          atMs += afterMs;
          walk.feed(holds, atMs);
        }
        let open: string | undefined;
        let endedMs = Number.NEGATIVE_INFINITY;
        for (const [reportedAtMs, change, id] of walk.told) {
          expect(change === 'opened').toBe(open === undefined);
          if (change === 'opened')
            expect(reportedAtMs - endedMs).toBeGreaterThanOrEqual(cooldownSeconds * SECOND);
          else expect(id).toBe(open);
          open = change === 'resolved' ? undefined : id;
          if (change === 'resolved') endedMs = reportedAtMs;
        }
        expect(walk.state.open?.id).toBe(open);
        const ids = walk.told.filter(([, change]) => change === 'opened').map(([, , id]) => id);
        expect(new Set(ids).size).toBe(ids.length);
      }),
    );
  });

  it('it begins when the condition held without a break for forSeconds, and ends when it was gone so long [C-9]', () => {
    fc.assert(
      fc.property(walks, ({ forSeconds, cooldownSeconds, steps }) => {
        const walk = new Walk({ forSeconds, cooldownSeconds });
        let atMs = 0;
        // Since when what came last has come, without a break.
        let run = { holds: false, sinceMs: 0 };
        for (const { holds, afterMs } of steps) {
          atMs += afterMs;
          if (holds !== run.holds) run = { holds, sinceMs: atMs };
          const notBeforeMs = walk.state.notBeforeMs ?? 0;
          const wasOpen = walk.state.open !== undefined;
          const change = walk.feed(holds, atMs);
          const isLong = atMs - run.sinceMs >= forSeconds * SECOND;
          const mayOpen = !wasOpen && holds && isLong && NOW_MS + atMs >= notBeforeMs;
          expect(change === 'opened').toBe(mayOpen);
          expect(change === 'resolved').toBe(wasOpen && !holds && isLong);
        }
      }),
    );
  });
});
