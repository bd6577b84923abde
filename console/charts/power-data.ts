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
  const [times, measured]: [number[], (number | null | undefined)[]] = [[], []];
  const marks = marksOf(changes, fromMs, isCut ? undefined : nowMs);
  let nextMark = 0;
  /** Adds the times of changes before this one, at which nothing was measured. */
  const addMarks = (beforeMs: number) => {
    for (let atMs = marks[nextMark]; atMs !== undefined && atMs <= beforeMs; atMs = marks[nextMark]) {
      nextMark += 1;
      if (atMs === beforeMs) continue;
      times.push(atMs);
      measured.push(undefined);
    }
  };
  const add = (atMs: number, value: number | null) => {
    addMarks(atMs);
    times.push(atMs);
    measured.push(value);
  };
  let lastMs: number | undefined;
  // Readings come in order; there may be many thousands.
  for (const { timestamp, value } of points) {
    const atMs = Date.parse(timestamp);
    if (lastMs !== undefined && atMs <= lastMs) continue;
    if (lastMs !== undefined && atMs - lastMs > gapMs) add(lastMs + 1, null);
    add(atMs, value);
    lastMs = atMs;
  }
  addMarks(Number.POSITIVE_INFINITY);
  const endMs = isCut ? (marks.at(-1) ?? nowMs) : nowMs;
  const commanded = commandedAt(times, changes, fromMs, endMs);
  return [times.map((atMs) => atMs / 1_000), measured, commanded];
}

/** The times just before each change and of it, and the end, in order and each once. */
function marksOf(changes: readonly PlanChange[], fromMs: number, endMs: number | undefined): number[] {
  const changedMs = changes.map(({ at }) => Math.max(fromMs, Date.parse(at)));
  const all = [...changedMs.flatMap((atMs) => [atMs - 1, atMs]), ...(endMs === undefined ? [] : [endMs])];
  return [...new Set(all)].sort((one, other) => one - other);
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
