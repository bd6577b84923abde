/** The two lines of the power chart. Pure. */
import type { PlanChange, Point } from '../api/types.ts';
import type { Shown } from './plan.ts';

/**
 * Times in seconds, measured and commanded power. `undefined` joins the neighbours, null is a gap: where readings are
 * further apart than `gapMs`, and where nothing commands a power.
 */
export function powerData(
  points: readonly Point[],
  changes: readonly PlanChange[],
  { fromMs, nowMs, isCut }: Pick<Shown, 'fromMs' | 'nowMs' | 'isCut'>,
  gapMs: number,
): [number[], (number | null | undefined)[], (number | null)[]] {
  const measured = new Map<number, number | null>();
  let lastMs: number | undefined;
  for (const { timestamp, value } of points) {
    const atMs = Date.parse(timestamp);
    if (lastMs !== undefined && atMs - lastMs > gapMs) measured.set(lastMs + 1, null);
    measured.set(atMs, value);
    lastMs = atMs;
  }
  const changedMs = changes.map(({ at }) => Math.max(fromMs, Date.parse(at)));
  const endMs = isCut ? (changedMs.at(-1) ?? nowMs) : nowMs;
  const times = [
    ...new Set([...measured.keys(), ...changedMs.flatMap((atMs) => [atMs - 1, atMs]), endMs]),
  ].sort((one, other) => one - other);
  return [
    times.map((atMs) => atMs / 1_000),
    times.map((atMs) => measured.get(atMs)),
    commandedAt(times, changes, fromMs, endMs),
  ];
}

/** The commanded power at each of these times: that of the last change before. */
function commandedAt(
  times: readonly number[],
  changes: readonly PlanChange[],
  fromMs: number,
  endMs: number,
): (number | null)[] {
  let next = 0;
  let current: number | null = null;
  return times.map((atMs) => {
    for (
      let change = changes[next];
      change && Math.max(fromMs, Date.parse(change.at)) <= atMs;
      change = changes[next]
    ) {
      current = change.target.kw;
      next += 1;
    }
    return atMs <= endMs ? current : null;
  });
}
