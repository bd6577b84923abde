/** Sums of readings are exact decimals, whatever their order, sizes and the roll-ups between [C-4.5]. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forMany } from '#support/property.ts';
import { ExactSum, sumOf } from '../../../../durable-objects/site/telemetry/exact-sum.ts';

/** Large enough for the digits of the smallest double. */
const SCALE = 1_200;

/** The value of a printed number or sum, times 10^SCALE, computed independently of the tested code. */
function scaled(text: string): bigint {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(text);
  if (!match) throw new Error(`not a number: ${text}`);
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match;
  const digits = BigInt(whole + fraction) * 10n ** BigInt(SCALE - fraction.length + Number(exponent));
  return sign === '-' ? -digits : digits;
}

function total(values: readonly number[]): bigint {
  return values.reduce((sum, value) => sum + scaled(String(value)), 0n);
}

/** The exact binary value of a double, times 10^SCALE. */
function exact(double: number): bigint {
  let [mantissa, halvings] = [double, 0];
  while (!Number.isInteger(mantissa)) [mantissa, halvings] = [mantissa * 2, halvings + 1];
  return (BigInt(mantissa) * 10n ** BigInt(SCALE)) / 2n ** BigInt(halvings);
}

function neighbours(double: number): [number, number] {
  const view = new DataView(new ArrayBuffer(8));
  const step = (by: bigint) => {
    view.setFloat64(0, double);
    view.setBigInt64(0, view.getBigInt64(0) + by);
    return view.getFloat64(0);
  };
  if (double === 0) return [-Number.MIN_VALUE, Number.MIN_VALUE];
  return double > 0 ? [step(-1n), step(1n)] : [step(1n), step(-1n)];
}

/**
 * Expects that no other double is nearer to sum / count: the sum lies between the midpoints to the
 * neighbouring doubles.
 */
function expectNearest(double: number, sum: bigint, count: number): void {
  const [below, above] = neighbours(double);
  const twice = 2n * sum;
  const times = BigInt(count);
  expect(twice >= (exact(below) + exact(double)) * times, `${double} is too large`).toBe(true);
  expect(twice <= (exact(double) + exact(above)) * times, `${double} is too small`).toBe(true);
}

function sumUp(values: readonly number[]): ExactSum {
  const sum = new ExactSum();
  for (const value of values) sum.add(value);
  return sum;
}

/** Numbers as devices write them: some decimals, of any allowed size. */
const decimal = fc
  .tuple(fc.integer({ min: -1_000_000_000, max: 1_000_000_000 }), fc.nat(12), fc.boolean())
  .map(([digits, places, isLarge]) => Number(isLarge ? `${digits}e3` : `${digits}e-${places}`));
const value = fc.oneof(
  { weight: 4, arbitrary: decimal },
  { weight: 2, arbitrary: fc.double({ min: -1e12, max: 1e12, noNaN: true }) },
  { weight: 1, arbitrary: fc.constantFrom(1e12, -1e12, 1e-7, -1e-7, 0.1, 0.2, 1e9, 999_999_999.999999) },
  { weight: 1, arbitrary: fc.constantFrom(0, -0, 5e-324, -5e-324, 1.7976931348623157e-300, 2 ** -1022) },
);
const values = fc.array(value, { minLength: 1, maxLength: 60 });

describe('an exact sum', () => {
  it('equals the sum of the decimals, for any values in any order [C-4.5]', () => {
    forMany(500, values, fc.infiniteStream(fc.nat()), (given, keys) => {
      const shuffled = given
        .map((one) => ({ one, key: keys.next().value ?? 0 }))
        .sort((left, right) => left.key - right.key)
        .map(({ one }) => one);
      const text = sumUp(given).toString();
      expect(scaled(text)).toBe(total(given));
      expect(sumUp(shuffled).toString()).toBe(text);
    });
  });

  it('the text of an exact sum is unique: plain digits without an exponent or a needless zero [C-4.5]', () => {
    forMany(500, values, (given) => {
      const text = sumUp(given).toString();
      expect(text).toMatch(/^(0|-?(?:0|[1-9]\d*)(?:\.\d*[1-9])?)$/);
      expect(text).not.toBe('-0');
      expect(sumOf(text).toString()).toBe(text);
    });
  });

  it('is the same if it is added from the texts of partial sums, in either order [C-4.5]', () => {
    forMany(300, fc.array(values, { minLength: 1, maxLength: 8 }), fc.boolean(), (groups, isReversed) => {
      const texts = groups.map((group) => sumUp(group).toString());
      const sum = new ExactSum();
      for (const text of isReversed ? texts.reverse() : texts) sum.addText(text);
      expect(sum.toString()).toBe(sumUp(groups.flat()).toString());
      expect(Object.is(sum.toNumber(), sumUp(groups.flat()).toNumber())).toBe(true);
    });
  });

  it('returns the nearest double of the sum and of its mean [C-4.5]', () => {
    forMany(500, values, fc.integer({ min: 1, max: 3_000_000 }), (given, count) => {
      const sum = sumUp(given);
      expectNearest(sum.toNumber(), total(given), 1);
      expectNearest(sum.mean(given.length), total(given), given.length);
      expectNearest(sum.mean(count), total(given), count);
      expect(sumOf(sum.toString()).mean(count)).toBe(sum.mean(count));
    });
  });

  it.each<[string, number[], string, number, number]>([
    ['decimals that binary cannot hold', [0.1, 0.2], '0.3', 0.3, 0.15],
    ['a value that already has a binary error', [0.1 + 0.2, 0.1], '0.40000000000000004', 0.4, 0.2],
    ['the largest and the smallest value', [1e12, 1e-7, -1e12], '0.0000001', 1e-7, 1e-7 / 3],
    ['values that cancel out', [1e12, -0.3, -1e12, 0.3], '0', 0, 0],
    ['negative zeros', [-0, -0], '0', 0, 0],
    ['more digits than a double', [9e11, 9e11, 9e11, 0.000001], '2700000000000.000001', 2.7e12, 6.75e11],
    ['values with a periodic mean', [1, 0, 0], '1', 1, 1 / 3],
  ])('has for %s the right text, number and mean [C-4.5]', (_what, given, text, asNumber, mean) => {
    const sum = sumUp(given);
    expect(sum.toString()).toBe(text);
    expect(sum.toNumber()).toBe(asNumber);
    expect(sum.mean(given.length)).toBe(mean);
  });

  it('has no rounding error after a million readings [C-4.5]', () => {
    const sum = new ExactSum();
    for (let index = 0; index < 1_000_000; index++) sum.addText('31536.1');
    expect(sum.toString()).toBe('31536100000');
    expect(sum.mean(1_000_000)).toBe(31_536.1);
  });
});
