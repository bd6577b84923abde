/** The platform's time: nothing that the clock of this computer says reaches a command. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { noteAnswer, platformNow } from '../../console/api/clock.ts';

const MINUTE = 60_000;
const REAL_MS = Date.UTC(2026, 0, 15, 10, 0, 30);

/** An answer that was written at the real time and came `tookMs` later, to a computer whose clock is off by so much. */
function answered(offMs: number, tookMs = 0): void {
  vi.setSystemTime(REAL_MS + tookMs + offMs);
  const answer = new Response(null, { headers: { date: new Date(REAL_MS).toUTCString() } });
  noteAnswer(answer);
}

describe('the time of the platform', () => {
  beforeEach(() => {
    vi.useFakeTimers();
    return () => vi.useRealTimers();
  });

  it.each([10 * MINUTE, -10 * MINUTE, 72 * 60 * MINUTE, -MINUTE])(
    'is known after one answer, with a clock that is off by %d ms',
    (offMs) => {
      answered(offMs);
      expect(Math.abs(platformNow() - REAL_MS)).toBeLessThanOrEqual(1_000);
    },
  );

  it('is that of the computer while this is right', () => {
    answered(10 * MINUTE);
    answered(300, 400);
    expect(platformNow()).toBe(Date.now());
  });

  it('is never taken for later than it is, and is known better after a faster answer', () => {
    answered(10 * MINUTE, 900);
    expect(platformNow()).toBe(REAL_MS);
    answered(10 * MINUTE, 100);
    expect(platformNow()).toBe(REAL_MS);
    answered(10 * MINUTE, 900);
    expect(platformNow()).toBe(REAL_MS + 800);
  });

  it('stays as it was after an answer without the header', () => {
    answered(10 * MINUTE);
    noteAnswer(new Response(null));
    expect(Math.abs(platformNow() - REAL_MS)).toBeLessThanOrEqual(1_000);
  });
});
