/** One alert rule as a state machine: when an alert begins, recurs and ends, to the millisecond [C-9]. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  dueMs,
  meets,
  type OpenAlert,
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
  return {
    severity: 'WARNING',
    operator: 'GT',
    threshold: 10,
    forSeconds: 0,
    cooldownSeconds: 300,
    ...changes,
  };
}

const open: OpenAlert = {
  id: 'a1',
  firstSeenMs: NOW_MS,
  count: 1,
  reportedMs: NOW_MS,
  type: 'THRESHOLD',
  severity: 'WARNING',
};

/** Feeds a rule with the truth of its condition over time. Alert ids are numbered: `a1`, `a2`, … */
class Walk {
  readonly #rule: Rule;
  state: RuleState = {};
  readonly changes: [atMs: number, change: string, id: string | undefined][] = [];
  #ids = 0;

  constructor(of: Partial<Rule> = {}) {
    this.#rule = rule(of);
  }

  feed(holds: boolean, atMs: number): RuleStep['change'] {
    const before = this.state.open?.id;
    const newId = () => `a${++this.#ids}`;
    const { state, change } = stepRule(this.#rule, this.state, holds, NOW_MS + atMs, newId);
    this.state = state;
    if (change) this.changes.push([atMs, change, state.open?.id ?? before]);
    return change;
  }
}

describe('an alert condition', () => {
  const MET: Record<AlertOperator, readonly [under: boolean, equal: boolean, over: boolean]> = {
    GT: [false, false, true],
    GTE: [false, true, true],
    LT: [true, false, false],
    LTE: [true, true, false],
    EQ: [false, true, false],
    NE: [true, false, true],
    ABSENT: [false, false, false],
  };
  it.each(ALERT_OPERATORS)(
    'the operator %s accepts the values below, at or above the threshold that its name says; ABSENT accepts none [C-9]',
    (operator) => {
      const met = (threshold: number) =>
        [-1, 0, 1].map((by) => meets(rule({ operator, threshold }), threshold + by));
      for (const threshold of [10, 0, -10]) expect(met(threshold)).toEqual(MET[operator]);
    },
  );
});

describe('the beginning of an alert', () => {
  it('an alert without forSeconds begins with the first reading that meets its rule [C-9]', () => {
    const walk = new Walk();
    expect(walk.feed(false, 0)).toBeUndefined();
    expect(walk.state).toEqual({});
    expect(walk.feed(true, SECOND)).toBe('opened');
    const at = NOW_MS + SECOND;
    expect(walk.state).toEqual({
      sinceMs: at,
      open: { ...open, firstSeenMs: at, reportedMs: at },
    });
  });

  it('an alert begins forSeconds after its condition became true, and its firstSeen is when it became true [C-9]', () => {
    const walk = new Walk({ forSeconds: 60 });
    expect(walk.feed(true, 0)).toBeUndefined();
    expect(walk.feed(true, MINUTE - 1)).toBeUndefined();
    expect(walk.feed(true, MINUTE)).toBe('opened');
    expect(walk.state.open).toMatchObject({ firstSeenMs: NOW_MS, count: 1 });
  });

  it('a reading that does not meet the rule restarts forSeconds [C-9]', () => {
    const walk = new Walk({ forSeconds: 60 });
    walk.feed(true, 0);
    walk.feed(false, MINUTE - 1);
    expect(walk.state).toEqual({});
    expect(walk.feed(true, MINUTE)).toBeUndefined();
    expect(walk.feed(true, 2 * MINUTE - 1)).toBeUndefined();
    expect(walk.feed(true, 2 * MINUTE)).toBe('opened');
    expect(walk.state.open?.firstSeenMs).toBe(NOW_MS + MINUTE);
  });

  it('no alert begins during the cooldown; at its end one begins if its condition has been true for forSeconds [C-9]', () => {
    const walk = new Walk({ forSeconds: 60, cooldownSeconds: 300 });
    for (const minute of [0, 1, 2, 3]) walk.feed(minute < 2, minute * MINUTE);
    expect(walk.state).toEqual({ notBeforeMs: NOW_MS + 8 * MINUTE });
    expect(walk.feed(true, 4 * MINUTE)).toBeUndefined();
    expect(walk.feed(true, 8 * MINUTE - 1)).toBeUndefined();
    expect(walk.feed(true, 8 * MINUTE)).toBe('opened');
    expect(walk.state.open).toMatchObject({ id: 'a2', firstSeenMs: NOW_MS + 4 * MINUTE, count: 1 });
    expect(walk.state.notBeforeMs).toBeUndefined();
  });
});

describe('an open alert', () => {
  it('ends exactly forSeconds after its condition became false [C-9]', () => {
    const walk = new Walk({ forSeconds: 60 });
    walk.feed(true, 0);
    walk.feed(true, MINUTE);
    expect(walk.feed(false, 2 * MINUTE)).toBeUndefined();
    expect(walk.feed(false, 3 * MINUTE - 1)).toBeUndefined();
    expect(walk.feed(false, 3 * MINUTE)).toBe('resolved');
    expect(walk.state).toEqual({ notBeforeMs: NOW_MS + 8 * MINUTE });
  });

  it('ends with the first reading that does not meet its rule, if the rule has no forSeconds [C-9]', () => {
    const walk = new Walk();
    walk.feed(true, 0);
    expect(walk.feed(false, 1)).toBe('resolved');
  });

  it('counts each return of its condition, and does not count while the condition lasts [C-9]', () => {
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
    expect(walk.changes.map(([, change]) => change)).toEqual(['opened', 'again', 'again', 'again']);
  });

  it('is reported once a minute while its condition lasts, without counting again [C-9]', () => {
    const walk = new Walk();
    for (let second = 0; second <= 180; second += 10) walk.feed(true, second * SECOND);
    expect(walk.changes.map(([atMs, change]) => [atMs, change])).toEqual([
      [0, 'opened'],
      [MINUTE, 'again'],
      [2 * MINUTE, 'again'],
      [3 * MINUTE, 'again'],
    ]);
    expect(walk.state.open?.count).toBe(1);
  });

  it('whose condition flaps with each reading counts every return and reports at most once a minute (rule 9)', () => {
    const walk = new Walk({ forSeconds: 60 });
    walk.feed(true, 0);
    walk.feed(true, MINUTE);
    for (let second = 1; second <= 600; second++) walk.feed(second % 2 === 0, MINUTE + second * SECOND);
    expect(walk.state.open?.count).toBe(301);
    const again = walk.changes.filter(([, change]) => change === 'again').map(([atMs]) => atMs);
    expect(again).toEqual(Array.from({ length: 10 }, (_none, index) => (index + 2) * MINUTE));
  });
});

describe('the next time at which a rule changes without a reading', () => {
  it('a comparison rule is due only when the condition of an open alert has been false for forSeconds [C-9]', () => {
    const over = rule({ forSeconds: 60 });
    expect(dueMs(over, {}, NOW_MS)).toBeUndefined();
    expect(dueMs(over, { sinceMs: NOW_MS }, NOW_MS)).toBeUndefined();
    expect(dueMs(over, { sinceMs: NOW_MS, open }, NOW_MS)).toBeUndefined();
    expect(dueMs(over, { goneMs: NOW_MS, open }, NOW_MS)).toBe(NOW_MS + MINUTE);
  });

  it('an ABSENT rule is due forSeconds after the last reading, but not before its cooldown is over [C-9]', () => {
    const absent = rule({ operator: 'ABSENT', threshold: null, forSeconds: 300 });
    expect(dueMs(absent, {}, NOW_MS)).toBe(NOW_MS + 5 * MINUTE);
    const notBeforeMs = NOW_MS + 7 * MINUTE;
    expect(dueMs(absent, { notBeforeMs }, NOW_MS)).toBe(notBeforeMs);
    expect(dueMs(absent, { open }, NOW_MS)).toBeUndefined();
    expect(dueMs(absent, { goneMs: NOW_MS, open }, NOW_MS)).toBe(NOW_MS + 5 * MINUTE);
  });
});

describe('any sequence of readings', () => {
  const walks = fc.record({
    forSeconds: fc.integer({ min: 0, max: 120 }),
    cooldownSeconds: fc.integer({ min: 60, max: 600 }),
    steps: fc.array(fc.record({ holds: fc.boolean(), afterMs: fc.integer({ min: 0, max: 200_000 }) }), {
      maxLength: 60,
    }),
  });

  it('a rule has at most one open alert, and opens the next only after the last one ended and the cooldown is over [C-9]', () => {
    forAll(walks, ({ forSeconds, cooldownSeconds, steps }) => {
      const walk = new Walk({ forSeconds, cooldownSeconds });
      let atMs = 0;
      for (const { holds, afterMs } of steps) {
        atMs += afterMs;
        walk.feed(holds, atMs);
      }
      let open: string | undefined;
      let endedMs = Number.NEGATIVE_INFINITY;
      for (const [reportedAtMs, change, id] of walk.changes) {
        expect(change === 'opened').toBe(open === undefined);
        if (change === 'opened')
          expect(reportedAtMs - endedMs).toBeGreaterThanOrEqual(cooldownSeconds * SECOND);
        else expect(id).toBe(open);
        open = change === 'resolved' ? undefined : id;
        if (change === 'resolved') endedMs = reportedAtMs;
      }
      expect(walk.state.open?.id).toBe(open);
      const ids = walk.changes.filter(([, change]) => change === 'opened').map(([, , id]) => id);
      expect(new Set(ids).size).toBe(ids.length);
    });
  });

  it('an alert begins after its condition was true for forSeconds without a break, and ends after it was false as long [C-9]', () => {
    forAll(walks, ({ forSeconds, cooldownSeconds, steps }) => {
      const walk = new Walk({ forSeconds, cooldownSeconds });
      let atMs = 0;
      // The current value of the condition, and the time since which it has not changed.
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
    });
  });
});
