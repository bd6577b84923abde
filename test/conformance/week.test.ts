/**
 * Checks telemetry values to the last digit: six hours of a plant around midnight and the night of the clock
 * change. The test loads them through MQTT, reads them through every endpoint and width, and compares them
 * with an independent computation in Python (`npm run sitewire -- week` takes the whole week).
 */
import { afterAll, describe, expect, it } from 'vitest';
import { cleanUp, newFolder } from '#support/dev-stack.ts';
import { skippedWithout } from '#support/programs.ts';
import { missingForWeek, runWeek } from '../../tools/week/stack.ts';

const missing = missingForWeek();

describe.skipIf(missing.length > 0)(`a plant's history${skippedWithout(missing)}`, () => {
  afterAll(cleanUp);

  it('equals the result of an independent script, after gaps, repeats, late samples and a register reset [C-4.5], [C-4.6]', async () => {
    let output = '';
    const span = { startMs: Date.UTC(2026, 9, 24, 21), hours: 6, seed: 1, others: 0 };
    const code = await runWeek(newFolder(), span, (text) => {
      output += text;
    });
    expect(code, output).toBe(0);
    const done = JSON.parse(output.trim().split('\n').at(-1) ?? '{}') as Record<string, number>;
    expect(done).toMatchObject({ event: 'done', differences: 0 });
    // The data exercised every quality that a reading may have.
    const { GOOD = 0, DEGRADED = 0, ESTIMATED = 0, INTERPOLATED = 0, STALE = 0 } = done;
    expect(Math.min(GOOD, DEGRADED, ESTIMATED, INTERPOLATED, STALE)).toBeGreaterThan(0);
    expect(done.values).toBeGreaterThan(50_000);
  }, 150_000);
});
