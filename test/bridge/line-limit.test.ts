/** The limits of log lines that clients can cause: equal lines, lines of one address, and all lines. */
import { describe, expect, vi } from 'vitest';
import { edgeTest } from '#support/bridge-test.ts';
import { LineLimit } from '../../bridge/line-limit.ts';

const MINUTE_MS = 60_000;

/** `lines`: a limit on the test's clock, and the counts of omitted lines that it reported. */
const it = edgeTest.extend('lines', ({ clock: _clock }) => {
  const leftOut: [address: string, count: number][] = [];
  const limit = new LineLimit((...report) => leftOut.push(report));
  /** The number of lines that are written of `count`; an omitted address or text is different each time. */
  const taken = (count: number, address?: string, text?: string) => {
    let lines = 0;
    for (let at = 0; at < count; at++) if (limit.takes(address ?? `${at}`, text ?? `${at}`)) lines += 1;
    return lines;
  };
  return { leftOut, limit, taken };
});

describe('the log lines of one minute', () => {
  it('five equal lines of an address are written, the others counted', ({ lines: { leftOut, taken } }) => {
    expect(taken(12, 'here', 'one')).toBe(5);
    expect(taken(3, 'here', 'two')).toBe(3);
    expect(taken(3, 'there', 'one')).toBe(3);
    vi.advanceTimersByTime(MINUTE_MS);
    expect(leftOut).toEqual([['here', 7]]);
  });

  it('sixty lines of one address are written, and the others counted', ({ lines: { leftOut, taken } }) => {
    expect(taken(1_000, 'here')).toBe(60);
    expect(taken(10, 'there')).toBe(10);
    vi.advanceTimersByTime(MINUTE_MS);
    expect(leftOut).toEqual([['here', 940]]);
  });

  it('600 lines are written in all, and those of unknown addresses are counted together', ({
    lines: { leftOut, limit, taken },
  }) => {
    expect(taken(100_000)).toBe(600);
    expect(limit.takes('5', 'more')).toBe(false);
    vi.advanceTimersByTime(MINUTE_MS);
    expect(leftOut).toEqual([
      ['5', 1],
      ['', 99_400],
    ]);
  });
});

it('the limit restarts with each minute', ({ lines: { leftOut, limit, taken } }) => {
  taken(6, 'here', 'one');
  vi.advanceTimersByTime(MINUTE_MS - 1);
  expect(limit.takes('here', 'one')).toBe(false);
  vi.advanceTimersByTime(1);
  expect(leftOut).toEqual([['here', 2]]);
  vi.advanceTimersByTime(MINUTE_MS);
  expect(taken(6, 'here', 'one')).toBe(5);
  expect(leftOut).toHaveLength(1);
});
