/** Registers: what a meter has counted since it was first heard never falls, whatever it says [C-4.5]. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  advanceRegister,
  isComputed,
  type RegisterState,
  totalOf,
  totals,
} from '../../../../durable-objects/site/telemetry/register.ts';

const METRIC = 'METER-1/importRegisterKwh';

interface Told {
  total: number;
  isComputed: boolean;
}

/** What a register stands for after each value. */
function tell(values: readonly number[]): Told[] {
  let state: RegisterState | undefined;
  return values.map((value, index) => {
    state = advanceRegister(state, value, index);
    return { total: totalOf(state), isComputed: isComputed(state) };
  });
}

function totalsOf(values: readonly number[]): number[] {
  return tell(values).map(({ total }) => total);
}

const value = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 2_000_000 }).map((wh) => wh / 1_000) },
  { weight: 2, arbitrary: fc.double({ min: 0, max: 1e12, noNaN: true }) },
  { weight: 1, arbitrary: fc.double({ min: -1e12, max: 1e12, noNaN: true }) },
  { weight: 1, arbitrary: fc.constantFrom(0, -0, 1e-7, 1e12, -1, 100, 99.9, 90, 89.9, 0.1, 0.2, 1.0000004) },
);

describe('a register', () => {
  it('that rises is answered as it was sent [C-4.5]', () => {
    fc.assert(
      fc.property(fc.array(value, { minLength: 1 }), (values) => {
        const rising = values.toSorted((left, right) => left - right);
        for (const [index, told] of tell(rising).entries()) {
          expect(told.total === rising[index], `${told.total} is ${rising[index]}`).toBe(true);
          expect(told.isComputed).toBe(false);
        }
      }),
    );
  });

  it('never falls, whatever it says [C-4.5]', () => {
    fc.assert(
      fc.property(fc.array(value, { minLength: 2, maxLength: 40 }), (values) => {
        const told = totalsOf(values);
        for (const [index, total] of told.slice(1).entries())
          expect(total).toBeGreaterThanOrEqual(told[index] ?? 0);
      }),
      { numRuns: 2_000 },
    );
  });

  it('that is reset goes on from what it had counted, each time [C-4.5]', () => {
    expect(tell([100, 120.5, 0, 3, 3.25, 0.5, 1])).toEqual([
      { total: 100, isComputed: false },
      { total: 120.5, isComputed: false },
      { total: 120.5, isComputed: true },
      { total: 123.5, isComputed: true },
      { total: 123.75, isComputed: true },
      { total: 124.25, isComputed: true },
      { total: 124.75, isComputed: true },
    ]);
  });

  it.each([
    ['99.999 of 100', [100, 99.999, 100, 101], [100, 100, 100, 101], [false, true, false, false]],
    ['90.001 of 100', [100, 90.001, 99, 100.5], [100, 100, 100, 100.5], [false, true, true, false]],
    ['90 of 100', [100, 90, 91], [100, 190, 191], [false, true, true]],
    ['0.0001 of 0.001', [0.001, 0.0001], [0.001, 0.0011], [false, true]],
    ['0 of 0', [0, 0, 1], [0, 0, 1], [false, false, false]],
  ])(
    'that says %s: less than a tenth is a slip that holds, more is a reset [C-4.5]',
    (_what, values, expected, computed) => {
      const told = tell(values);
      expect(told.map(({ total }) => total)).toEqual(expected);
      expect(told.map((one) => one.isComputed)).toEqual(computed);
    },
  );

  it('that slips and is reset then is reset from the most that it had said [C-4.5]', () => {
    expect(totalsOf([100, 95, 10, 12])).toEqual([100, 100, 110, 112]);
  });

  it('that says less than nothing holds what it had, and counts from nothing [C-4.5]', () => {
    expect(totalsOf([-5, -3, -4, -100, 0, 2])).toEqual([-5, -3, -3, -3, -3, -1]);
    expect(tell([10, -1, -2, 4])).toEqual([
      { total: 10, isComputed: false },
      { total: 10, isComputed: true },
      { total: 10, isComputed: true },
      { total: 14, isComputed: true },
    ]);
    expect(tell([0, -1])).toEqual([
      { total: 0, isComputed: false },
      { total: 0, isComputed: true },
    ]);
  });

  it('adds decimals: no digit that nobody sent shows [C-4.5]', () => {
    expect(totalsOf([0.1, 0, 0.2])).toEqual([0.1, 0.1, 0.3]);
    expect(totalsOf([1.0000004, 0])).toEqual([1.0000004, 1.0000004]);
    expect(totalsOf([1e12, 0, 1e-7])).toEqual([1e12, 1e12, 1e12]);
  });
});

describe('the totals of a series', () => {
  const series = { atMs: [1, 2, 3, 4], values: [5, 1, 2, 2] };

  it('are told where they are something else than the register says [C-4.5]', () => {
    const registers: Record<string, RegisterState> = {};
    expect(totals(registers, METRIC, series)).toEqual([undefined, 6, 7, 7]);
    expect(registers).toEqual({ [METRIC]: { counted: 2, offset: 5, atMs: 4 } });
  });

  it('are the same in one piece or in many: the state goes on where it ended [C-4.5]', () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 20 }), fc.nat(20), (values, at) => {
        const atMs = values.map((_value, index) => index);
        const [whole, cut] = [{}, {}];
        const expected = totals(whole, METRIC, { atMs, values });
        const pieces = [
          totals(cut, METRIC, { atMs: atMs.slice(0, at), values: values.slice(0, at) }),
          totals(cut, METRIC, { atMs: atMs.slice(at), values: values.slice(at) }),
        ];
        expect(pieces.flat()).toEqual(expected);
        expect(cut).toEqual(whole);
      }),
    );
  });

  it('of what is no register are none, and nothing is remembered of it [C-4.5]', () => {
    const registers: Record<string, RegisterState> = {};
    for (const metric of ['METER-1/powerKw', 'importRegisterKwh/x', '__proto__', 'constructor'])
      expect(totals(registers, metric, series)).toBeUndefined();
    expect(Object.keys(registers)).toEqual([]);
  });
});
