/**
 * Registers: the total that a meter has counted since its first reading never falls, whatever its values are
 * [C-4.5].
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll, forMany } from '#support/property.ts';
import {
  advanceRegister,
  isComputed,
  type RegisterState,
  totalOf,
  totals,
} from '../../../../durable-objects/site/telemetry/register.ts';

const METRIC = 'METER-1/importRegisterKwh';
const HOUR = 3_600_000;
/** A connection that carries whatever the values say. */
const COURSE = { mostKw: 1e15 };
const courseOf = () => COURSE;

interface Counted {
  total: number;
  isComputed: boolean;
}

/** The total of a register after each value, with an hour between two: then one further value confirms a fall. */
function count(values: readonly number[]): Counted[] {
  let state: RegisterState | undefined;
  return values.map((value, index) => {
    state = advanceRegister(state, value, index * HOUR, COURSE);
    return { total: totalOf(state), isComputed: isComputed(state) };
  });
}

function totalsOf(values: readonly number[]): number[] {
  return count(values).map(({ total }) => total);
}

function computedOf(values: readonly number[]): boolean[] {
  return count(values).map((one) => one.isComputed);
}

const value = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 2_000_000 }).map((wh) => wh / 1_000) },
  { weight: 2, arbitrary: fc.double({ min: 0, max: 1e12, noNaN: true }) },
  { weight: 1, arbitrary: fc.double({ min: -1e12, max: 1e12, noNaN: true }) },
  { weight: 1, arbitrary: fc.constantFrom(0, -0, 1e-7, 1e12, -1, 100, 99.9, 90, 89.9, 0.1, 0.2, 1.0000004) },
);

describe('a register', () => {
  it('a rising register is returned unchanged [C-4.5]', () => {
    forAll(fc.array(value, { minLength: 1 }), (values) => {
      const rising = values.map(Math.abs).toSorted((left, right) => left - right);
      for (const [index, counted] of count(rising).entries()) {
        expect(counted.total === rising[index], `${counted.total} is ${rising[index]}`).toBe(true);
        expect(counted.isComputed).toBe(false);
      }
    });
  });

  it('the total of a register never falls, for any values [C-4.5]', () => {
    forMany(2_000, fc.array(value, { minLength: 2, maxLength: 40 }), (values) => {
      const counted = totalsOf(values);
      for (const [index, total] of counted.slice(1).entries())
        expect(total).toBeGreaterThanOrEqual(counted[index] ?? 0);
    });
  });

  it('continues from its previous total each time it is reset [C-4.5]', () => {
    const values = [100, 120.5, 0, 3, 3.25, 0.5, 1];
    expect(totalsOf(values)).toEqual([100, 120.5, 120.5, 123.5, 123.75, 123.75, 124.75]);
    expect(computedOf(values)).toEqual([false, false, true, true, true, true, true]);
  });

  it.each([
    ['99.999 of 100', [100, 99.999, 100, 101], [100, 100, 100, 101], [false, true, false, false]],
    ['90.001 of 100', [100, 90.001, 99, 100.5], [100, 100, 100, 100.5], [false, true, true, false]],
    ['90 of 100', [100, 90, 90], [100, 100, 190], [false, true, true]],
    ['0.0001 of 0.001', [0.001, 0.0001, 0.0002], [0.001, 0.001, 0.0012], [false, true, true]],
    ['0 of 0', [0, 0, 1], [0, 0, 1], [false, false, false]],
  ])(
    'falls to %s: by less than a tenth it is a glitch and ignored, by a tenth or more a reset [C-4.5]',
    (_what, values, expected, computed) => {
      expect(totalsOf(values)).toEqual(expected);
      expect(computedOf(values)).toEqual(computed);
    },
  );

  it('continues from its highest value if it falls slightly and is then reset [C-4.5]', () => {
    expect(totalsOf([100, 95, 10, 12])).toEqual([100, 100, 100, 112]);
  });

  it('keeps its total if it becomes negative, and continues to count from zero [C-4.5]', () => {
    expect(totalsOf([-5, -3, 0, 2])).toEqual([0, 0, 0, 2]);
    expect(computedOf([-5, -3, 0, 2])).toEqual([true, true, false, false]);
    expect(computedOf([0, -5, -5, 3])).toEqual([false, true, true, false]);
    expect(totalsOf([10, -1, -2, 4])).toEqual([10, 10, 10, 14]);
    expect(computedOf([10, -1, -2, 4])).toEqual([false, true, true, true]);
    expect([totalsOf([0, -1]), computedOf([0, -1])]).toEqual([
      [0, 0],
      [false, true],
    ]);
  });

  it('register totals are added as decimals, without rounding digits [C-4.5]', () => {
    expect(totalsOf([0.1, 0, 0.01, 0.2])).toEqual([0.1, 0.1, 0.11, 0.3]);
    expect(totalsOf([1.0000004, 0, 0])).toEqual([1.0000004, 1.0000004, 1.0000004]);
    expect(totalsOf([1e12, 0, 1e-7])).toEqual([1e12, 1e12, 1e12]);
  });
});

describe('the totals of a series', () => {
  const series = { atMs: [1, 2, 3, 4].map((n) => n * HOUR), values: [5, 1, 2, 2] };

  it("totals are stored only where they differ from the register's value [C-4.5]", () => {
    const registers: Record<string, RegisterState> = {};
    expect(totals(registers, METRIC, series, courseOf)).toEqual([undefined, 5, 7, 7]);
    expect(registers).toMatchObject({ [METRIC]: { counted: 2, offset: 7, origin: 2, atMs: 4 * HOUR } });
  });

  it('totals are the same for one piece or many, because the state continues [C-4.5]', () => {
    forAll(fc.array(value, { maxLength: 20 }), fc.nat(20), (values, at) => {
      const atMs = values.map((_value, index) => index);
      const [whole, cut] = [{}, {}];
      const expected = totals(whole, METRIC, { atMs, values }, courseOf);
      const pieces = [
        totals(cut, METRIC, { atMs: atMs.slice(0, at), values: values.slice(0, at) }, courseOf),
        totals(cut, METRIC, { atMs: atMs.slice(at), values: values.slice(at) }, courseOf),
      ];
      expect(pieces.flat()).toEqual(expected);
      expect(cut).toEqual(whole);
    });
  });

  it('a metric that is not a register has no totals and no state [C-4.5]', () => {
    const registers: Record<string, RegisterState> = {};
    for (const metric of ['METER-1/powerKw', 'importRegisterKwh/x', '__proto__', 'constructor'])
      expect(totals(registers, metric, series, courseOf)).toBeUndefined();
    expect(Object.keys(registers)).toEqual([]);
  });
});
