/** Properties that hold for all generated values; a failure names the shortest values that break them. */
import fc from 'fast-check';

type Property<Values extends [unknown, ...unknown[]]> = [
  ...arbitraries: { [Index in keyof Values]: fc.Arbitrary<Values[Index]> },
  predicate: (...values: Values) => void,
];

export function forAll<Values extends [unknown, ...unknown[]]>(...property: Property<Values>): void {
  fc.assert(fc.property(...property));
}

/** The same, with that many generated values; `forAll` uses a hundred. */
export function forMany<Values extends [unknown, ...unknown[]]>(
  numRuns: number,
  ...property: Property<Values>
): void {
  fc.assert(fc.property(...property), { numRuns });
}
