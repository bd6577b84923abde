/** Properties that hold for all generated values; a failure names the shortest values that break them. */
import fc from 'fast-check';

type Arbitraries<Values> = { [Index in keyof Values]: fc.Arbitrary<Values[Index]> };
type Check<Values extends unknown[]> = (...values: Values) => void;

/** Checks a property with a hundred sets of values. */
export function forAll<Values extends [unknown, ...unknown[]]>(
  ...property: [...Arbitraries<Values>, Check<Values>]
): void {
  forMany(100, ...property);
}

/** Checks a property with this number of sets of values. */
export function forMany<Values extends [unknown, ...unknown[]]>(
  numRuns: number,
  ...property: [...Arbitraries<Values>, Check<Values>]
): void {
  const arbitraries = property.slice(0, -1) as Arbitraries<Values>;
  const check = property.at(-1) as Check<Values>;
  // fast-check would judge what an assertion returns.
  fc.assert(
    fc.property<Values>(...arbitraries, (...values) => void check(...values)),
    { numRuns },
  );
}
