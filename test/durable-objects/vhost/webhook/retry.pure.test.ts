/** When a failed attempt of a webhook is repeated: the schedule, and the pause that a receiver asks for. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { LONGEST_MS, pauseMs, retryAfterMs } from '../../../../durable-objects/vhost/webhook/retry.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const ATTEMPTS = 11;
const NOW_MS = Date.parse('2030-03-05T12:00:00.000Z');

const SCHEDULE = [
  ...[5 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE],
  ...[2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR],
];

afterEach(() => {
  vi.restoreAllMocks();
});

/** The pauses after each failure while `Math.random` returns this. */
function pauses(random: number): (number | undefined)[] {
  vi.spyOn(Math, 'random').mockReturnValue(random);
  return SCHEDULE.map((_, index) => pauseMs(index + 1));
}

describe('the pause after a failed attempt', () => {
  it('is 5 s, 1 min, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h without jitter [C-12.4]', () => {
    expect(pauses(0)).toEqual(SCHEDULE);
  });

  it('is never shorter than the schedule and at most a fifth longer [C-12.4]', () => {
    expect(pauses(1)).toEqual(SCHEDULE.map((pause) => (pause / 10) * 12));
    expect(pauses(0.5)).toEqual(SCHEDULE.map((pause) => (pause / 10) * 11));
    vi.restoreAllMocks();
    const drawn = Array.from({ length: 200 }, () => pauseMs(1) ?? 0);
    expect(Math.min(...drawn)).toBeGreaterThanOrEqual(5 * SECOND);
    expect(Math.max(...drawn)).toBeLessThanOrEqual(6 * SECOND);
    expect(new Set(drawn).size).toBeGreaterThan(10);
  });

  it('does not exist after the eleventh failure: no attempt is left [C-12.4]', () => {
    expect(pauseMs(ATTEMPTS - 1)).toBeGreaterThan(0);
    expect(pauseMs(ATTEMPTS)).toBeUndefined();
    expect(pauseMs(ATTEMPTS + 1)).toBeUndefined();
  });

  it('adds up to the time for which a receiver may ask for later attempts', () => {
    expect(LONGEST_MS).toBe(SCHEDULE.reduce((sum, pause) => sum + pause, 0));
  });
});

describe('Retry-After', () => {
  it.each([
    ['7', 7 * SECOND],
    [' 30 ', 30 * SECOND],
    ['86400', DAY],
  ])('is for %j that many seconds [C-12.4]', (header, expected) => {
    expect(retryAfterMs(header, NOW_MS)).toBe(expected);
  });

  it.each(['Tue, 05 Mar 2030 12:10:00 GMT', 'Tuesday, 05-Mar-30 12:10:00 GMT'])(
    'is for the date %j the time until then [C-12.4]',
    (header) => {
      expect(retryAfterMs(header, NOW_MS)).toBe(10 * MINUTE);
    },
  );

  it.each(['0', '1', '4', 'Tue, 05 Mar 2030 12:00:00 GMT', 'Mon, 04 Mar 2030 12:00:00 GMT'])(
    'is for %j the shortest pause, so that no receiver makes the platform try without a pause [C-12.4]',
    (header) => {
      expect(retryAfterMs(header, NOW_MS)).toBe(5 * SECOND);
    },
  );

  it.each(['86401', '999999999', '9999999999', '9'.repeat(400), 'Fri, 05 Mar 2100 12:00:00 GMT'])(
    'is for %j a day, however far away the time is [C-12.4]',
    (header) => {
      expect(retryAfterMs(header, NOW_MS)).toBe(DAY);
    },
  );

  it.each(['', ' ', 'soon', 'NaN', 'Infinity', '-1', '-7', '1.5', '7s', '0x10', '1e3', '10 seconds', 'in 5'])(
    'is ignored for %j, because it is neither seconds nor a date [C-12.4]',
    (header) => {
      expect(retryAfterMs(header, NOW_MS)).toBeNull();
    },
  );

  it('is ignored if the answer has none', () => {
    expect(retryAfterMs(null, NOW_MS)).toBeNull();
  });
});
