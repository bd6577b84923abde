/** How many lines a client can cause: alike, of its address, and all together; and that what is left out is told. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LineLimit } from '../../bridge/line-limit.ts';
import { CLOCK } from '../support/bridge-signal.ts';

const MINUTE_MS = 60_000;

let leftOut: [address: string, count: number][];
let limit: LineLimit;

beforeEach(() => {
  vi.useFakeTimers(CLOCK);
  leftOut = [];
  limit = new LineLimit((...told) => leftOut.push(told));
});
afterEach(() => {
  vi.useRealTimers();
});

function taken(count: number, address: (at: number) => string, alike: (at: number) => string): number {
  let lines = 0;
  for (let at = 0; at < count; at++) if (limit.takes(address(at), alike(at))) lines += 1;
  return lines;
}

describe('in a minute', () => {
  it('lines that are alike are written five times, and the others counted', () => {
    expect(
      taken(
        12,
        () => 'here',
        () => 'one',
      ),
    ).toBe(5);
    expect(
      taken(
        3,
        () => 'here',
        () => 'two',
      ),
    ).toBe(3);
    expect(
      taken(
        3,
        () => 'there',
        () => 'one',
      ),
    ).toBe(3);
    vi.advanceTimersByTime(MINUTE_MS);
    expect(leftOut).toEqual([['here', 7]]);
  });

  it('one address has sixty, whatever it tries', () => {
    expect(taken(1_000, () => 'here', String)).toBe(60);
    expect(taken(10, () => 'there', String)).toBe(10);
    vi.advanceTimersByTime(MINUTE_MS);
    expect(leftOut).toEqual([['here', 940]]);
  });

  it('all have six hundred, and what is not told of them is counted together', () => {
    expect(taken(100_000, String, String)).toBe(600);
    expect(limit.takes('5', 'more')).toBe(false);
    vi.advanceTimersByTime(MINUTE_MS);
    expect(leftOut).toEqual([
      ['5', 1],
      ['', 99_400],
    ]);
  });
});

it('the next minute begins anew, with the first line of it', () => {
  taken(
    6,
    () => 'here',
    () => 'one',
  );
  vi.advanceTimersByTime(MINUTE_MS - 1);
  expect(limit.takes('here', 'one')).toBe(false);
  vi.advanceTimersByTime(1);
  expect(leftOut).toEqual([['here', 2]]);
  vi.advanceTimersByTime(MINUTE_MS);
  expect(
    taken(
      6,
      () => 'here',
      () => 'one',
    ),
  ).toBe(5);
  expect(leftOut).toHaveLength(1);
});
