/**
 * Registers whose meter restarts, overflows or sends nonsense: no energy is added that the connection could not carry,
 * and the total comes back to what the meter shows [C-4.5], [C-4.6].
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forMany } from '#support/property.ts';
import {
  advanceRegister,
  isComputed,
  type RegisterState,
  totalOf,
} from '../../../../durable-objects/site/telemetry/register.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** What the connection of the meter carries at most. */
const MOST_KW = 100;

interface Counted {
  total: number;
  isComputed: boolean;
}

/** The totals after each value. `stepMs`: between two readings. */
function count(values: readonly number[], stepMs: number): Counted[] {
  let state: RegisterState | undefined;
  return values.map((value, index) => {
    state = advanceRegister(state, value, index * stepMs, { mostKw: MOST_KW });
    return { total: totalOf(state), isComputed: isComputed(state) };
  });
}

const totalsOf = (values: readonly number[], stepMs = 10 * SECOND) =>
  count(values, stepMs).map(({ total }) => total);
const computedOf = (values: readonly number[], stepMs = 10 * SECOND) =>
  count(values, stepMs).map((one) => one.isComputed);

describe('a register that blips', () => {
  it.each([
    ['0 for one reading', [100, 0, 100.01, 100.02], [100, 100, 100.01, 100.02]],
    ['0 for two readings', [100, 0, 0, 100.01], [100, 100, 100, 100.01]],
    ['half for one reading', [100, 50, 100.01], [100, 100, 100.01]],
    ['-1 for one reading', [100, -1, 100.01], [100, 100, 100.01]],
    ['0 again and again', [100, 0, 100, 0, 100, 0, 100.2], [100, 100, 100, 100, 100, 100, 100.2]],
    ['the same value after 0', [100, 0, 100, 100], [100, 100, 100, 100]],
  ])('adds no energy for %s, and is the truth again after it [C-4.5]', (_what, values, expected) => {
    expect(totalsOf(values)).toEqual(expected);
  });

  it('is ESTIMATED only while it is not sure: GOOD with the first value that fits again [C-4.6]', () => {
    expect(computedOf([100, 0, 100.01, 100.02])).toEqual([false, true, false, false]);
    expect(computedOf([100, 0, 0, 100.01])).toEqual([false, true, true, false]);
  });

  it('adds no energy for one reading that is far too high, and is the truth again after it [C-4.5]', () => {
    expect(totalsOf([100, 1e9, 100.01, 100.02])).toEqual([100, 100, 100.01, 100.02]);
    expect(computedOf([100, 1e9, 100.01])).toEqual([false, true, false]);
  });
});

describe('a register that falls and stays below', () => {
  it('counts as reset with the second reading after the fall, and nothing that it counted is lost [C-4.5]', () => {
    expect(totalsOf([100, 100.2, 0, 0.1, 0.2, 0.3])).toEqual(
      [100, 100.2, 100.2, 100.2, 100.4, 100.5].map(near),
    );
  });

  it('counts as reset after 60 s with the first reading [C-4.5]', () => {
    expect(totalsOf([100, 0, 1, 2], MINUTE)).toEqual([100, 100, 101, 102]);
    expect(totalsOf([100, 0, 1, 2], MINUTE - 1).slice(0, 3)).toEqual([100, 100, 100]);
  });

  it('never falls, and is computed from the fall on [C-4.6]', () => {
    expect(computedOf([100, 0, 0.1, 0.2, 0.3])).toEqual([false, true, true, true, true]);
  });

  it('adds at most what the connection carries in the time, where its new values begin high [C-4.5]', () => {
    // Another meter with 50 000 kWh: nobody knows what was consumed, but it was at most 100 kW for that time.
    const [, , , last = 0] = totalsOf([80_000, 50_000, 50_000.1, 50_000.2], MINUTE);
    expect(last).toBeGreaterThanOrEqual(80_000);
    expect(last).toBeLessThanOrEqual(80_000 + (3 * MOST_KW * MINUTE) / HOUR);
  });
});

/** Equal within the digits of binary fractions. */
function near(value: number): unknown {
  return expect.closeTo(value, 6);
}

describe('a register that overflows', () => {
  it.each([1e5, 1e6, 1e7, 1e8, 1e9, 2 ** 32])('goes forward at %d [C-4.5]', (most) => {
    const values = [most - 0.2, most - 0.1, 0, 0.1, 0.2, 0.3];
    const totals = totalsOf(values);
    expect(totals.at(-1)).toEqual(near(most + 0.3));
    for (const [index, total] of totals.slice(1).entries())
      expect(total).toBeGreaterThanOrEqual(totals[index] ?? 0);
  });

  it('is a reset where the rest up to the overflow is more than the connection carries [C-4.5]', () => {
    expect(totalsOf([60_000, 0, 0.1, 0.2]).at(-1)).toEqual(near(60_000.2));
  });

  it('adds nothing for a blip to 0 shortly before the overflow [C-4.5]', () => {
    expect(totalsOf([99_999, 0, 99_999.1, 99_999.2]).at(-1)).toEqual(near(99_999.2));
  });
});

/** The total after values that come after hours of rest, and their last reading. */
function afterRest(hours: number, mostKw: number, values: readonly number[], stepMs = MINUTE): Counted {
  let state: RegisterState | undefined;
  const [first = 0, ...rest] = values;
  for (let hour = 0; hour <= hours; hour++) state = advanceRegister(state, first, hour * HOUR, { mostKw });
  for (const [index, value] of rest.entries())
    state = advanceRegister(state, value, hours * HOUR + (index + 1) * stepMs, { mostKw });
  return state ? { total: totalOf(state), isComputed: isComputed(state) } : { total: 0, isComputed: true };
}

describe.each([20, 200, 100_000])('a register after days of rest, at %d kW', (mostKw) => {
  it('takes up its course after 0 for several readings, and is GOOD again [C-4.5] [C-4.6]', () => {
    for (const zeros of [1, 2, 3, 10]) {
      const values = [48_210, ...Array(zeros).fill(0), 48_210.3, 48_210.4];
      expect([zeros, afterRest(100 * 24, mostKw, values)]).toEqual([
        zeros,
        { total: near(48_210.4), isComputed: false },
      ]);
    }
  });

  it('adds nothing for one value that is far too high, or for 0 near an overflow [C-4.5]', () => {
    expect(afterRest(2_400, mostKw, [48_210, 78_210, 48_210.1, 48_210.2, 48_210.3]).total).toEqual(
      near(48_210.3),
    );
    expect(afterRest(2_400, mostKw, [95_200, 0, 0, 0, 95_200.2]).total).toEqual(near(95_200.2));
  });
});

describe('a register whose display has steps of 1 kWh', () => {
  it('loses none of them at full power, and after hours without one [C-4.5]', () => {
    // 100 kW: a step each 36 s, seen by a reading each 10 s.
    const values = Array.from({ length: 400 }, (_none, index) => 1_000 + Math.floor(index / 3.6));
    expect(totalsOf(values)).toEqual(values);
    expect(new Set(computedOf(values))).toEqual(new Set([false]));
    const idle = [...Array(1_000).fill(500), 501, 501, 502];
    expect(totalsOf(idle)).toEqual(idle);
  });
});

describe('a register whose meter was exchanged by an admin', () => {
  const exchange = { atMs: 2 * HOUR, value: 0.2, totalKwh: 1_010 };

  it('counts on from the given total, and what was in doubt before is forgotten [C-4.5]', () => {
    let state: RegisterState | undefined;
    const seen: [number, boolean][] = [];
    for (const [atMs, value] of [
      [0, 1_000],
      [HOUR, 1_009],
      [2 * HOUR - 1, 0.1],
      [2 * HOUR, 0.2],
      [3 * HOUR, 7.2],
    ] as const) {
      state = advanceRegister(state, value, atMs, { mostKw: MOST_KW, exchanges: [exchange] });
      seen.push([totalOf(state), isComputed(state)]);
    }
    expect(seen).toEqual([
      [1_000, false],
      [1_009, false],
      [1_009, true],
      [1_010, true],
      [1_017, true],
    ]);
  });

  it('keeps the total of an exchange that another one follows [C-4.5]', () => {
    const later = { atMs: 4 * HOUR, value: 3, totalKwh: 1_100 };
    let state = advanceRegister(undefined, 500, HOUR, { mostKw: MOST_KW });
    const seen: number[] = [];
    for (const [atMs, value] of [
      [3 * HOUR, 1.2],
      [5 * HOUR, 4],
    ] as const) {
      state = advanceRegister(state, value, atMs, { mostKw: MOST_KW, exchanges: [exchange, later] });
      seen.push(totalOf(state));
    }
    expect(seen).toEqual([1_011, 1_101]);
  });

  it('is applied once, also to a register without a value before [C-4.5]', () => {
    const first = advanceRegister(undefined, 5.2, 3 * HOUR, { mostKw: MOST_KW, exchanges: [exchange] });
    const second = advanceRegister(first, 6.2, 4 * HOUR, { mostKw: MOST_KW, exchanges: [exchange] });
    expect([totalOf(first), totalOf(second)]).toEqual([1_015, 1_016]);
  });
});

describe('any values of a register', () => {
  const value = fc.oneof(
    { weight: 5, arbitrary: fc.integer({ min: 0, max: 2_000_000 }).map((wh) => wh / 1_000) },
    { weight: 2, arbitrary: fc.integer({ min: -1_000_000_000, max: 1_000_000_000 }).map((wh) => wh / 1_000) },
    { weight: 2, arbitrary: fc.constantFrom(0, -1, 99_999.9, 1e5, 2 ** 32, 1e12) },
  );

  it('never make the total fall, and never add more than the connection carries in the time [C-4.5]', () => {
    const stepMs = 10 * SECOND;
    forMany(2_000, fc.array(value, { minLength: 2, maxLength: 30 }), (values) => {
      const [first = 0, ...rest] = totalsOf(values, stepMs);
      let before = first;
      for (const [index, total] of rest.entries()) {
        expect(total).toBeGreaterThanOrEqual(before);
        // A sum with 1e12 has digits of 0.0001. A register may count a minute at once: its display has steps.
        const carriedKwh = (MOST_KW * ((index + 1) * stepMs + MINUTE)) / HOUR;
        expect(total - first).toBeLessThanOrEqual(carriedKwh + 0.001);
        before = total;
      }
    });
  });
});
