/** A history that takes several calls to the object is streamed; a failure cuts it off visibly [C-4.5]. */
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import type { KeyClient } from '#workerd/client.ts';
import { restRequest } from '#workerd/rest.ts';
import { setScene } from '#workerd/scene.ts';
import { boundSite, restoreBounds } from '#workerd/site-bounds.ts';
import { DAY, holdClock, MINUTE } from '#workerd/site-clock.ts';
import { evictSite, rowsOf } from '#workerd/site-rows.ts';
import { fillHistory } from '#workerd/telemetry-filling.ts';
import type { Answered } from '#workerd/telemetry-model.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import worker from '../../../worker/index.ts';

holdClock();
restoreBounds();

const METRIC = 'gridPowerKw';
const MIDNIGHT_MS = Date.parse('2030-03-05T00:00:00.000Z');
const FROM_MS = MIDNIGHT_MS - 7 * DAY;

/** A site with a week of history, minute by minute, the key to read it, and the path of the whole week. */
const it = test.extend('week', async () => {
  const { plant, key } = await setScene({ plant: true, key: true });
  const filling = {
    metrics: [METRIC],
    fromMs: FROM_MS,
    untilMs: MIDNIGHT_MS,
    rawFromMs: FROM_MS,
    stepMs: MINUTE,
  };
  await fillHistory(plant.id, filling);
  const range = { from: new Date(FROM_MS).toISOString(), to: '2030-03-05T00:00:00Z' };
  const path = `/vcp/sites/${plant.id}/telemetry?${new URLSearchParams({ metric: METRIC, ...range })}`;
  return { plant, key, path };
});

async function readingsOf(key: KeyClient, path: string): Promise<Answered[]> {
  return (await key.read<{ readings: Answered[] }>(path)).readings;
}

/** Reads an answer of 200 in pieces, like a client; returns its text, and whether it came completely. */
async function take(
  { key, path }: { key: KeyClient; path: string },
  between: () => Promise<void>,
): Promise<{ text: string; isWhole: boolean }> {
  const context = createExecutionContext();
  const response = await worker.fetch(restRequest(`/api/v1${path}`, { key: key.key }), env, context);
  expect(response.status).toBe(200);
  const decoder = new TextDecoder();
  let [text, isWhole] = ['', false];
  try {
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(bytes);
      await between();
    }
    isWhole = true;
  } catch (error) {
    expect(error).toBeInstanceOf(Error);
  }
  await waitOnExecutionContext(context);
  return { text, isWhole };
}

describe('a history of seven days, minute by minute', () => {
  it.for([20_000, 500, 1])(
    'is returned completely in one answer, with %i points in each call to the Site [C-4.5]',
    async (pointsPerCall, { week }) => {
      await boundSite(week.plant.id, { pointsPerCall });
      const readings = await readingsOf(week.key, week.path);
      const expected = Array.from({ length: 7 * 24 * 60 }, (_none, minute) => ({
        timestamp: new Date(FROM_MS + minute * MINUTE).toISOString(),
        value: Math.floor(minute / 60) % 24,
      }));
      expect(readings).toEqual(expected);
    },
  );

  it('is streamed to its end, although the Site is evicted between the pieces [C-4.5]', async ({ week }) => {
    await boundSite(week.plant.id, { pointsPerCall: 500 });
    let pieces = 0;
    const { text, isWhole } = await take(week, async () => {
      pieces += 1;
      await evictSite(week.plant.id);
    });
    expect([isWhole, pieces]).toEqual([true, expect.toSatisfy((count: number) => count > 15)]);
    expect((JSON.parse(text) as { readings: Answered[] }).readings).toHaveLength(7 * 24 * 60);
  });

  it('is cut off, as invalid JSON, if a call to the Site after the first fails [C-10]', async ({ week }) => {
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    await boundSite(week.plant.id, { pointsPerCall: 500 });
    await rowsOf(week.plant.id, `UPDATE telemetry_raw SET data = x'00' WHERE end_ms > ${FROM_MS + 3 * DAY}`);
    const { text, isWhole } = await take(week, async () => {});
    expect(isWhole).toBe(false);
    expect(text.length).toBeGreaterThan(500);
    expect(() => JSON.parse(text)).toThrow();
    expect(text).not.toContain(']');
  });

  it('gets 500 in the error envelope if the first call to the Site fails [C-10]', async ({ week }) => {
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    await rowsOf(week.plant.id, `UPDATE telemetry_raw SET data = x'00'`);
    const refused = await week.key.call(week.path);
    const { details } = await expectError(refused, 500, 'INTERNAL_SERVER_ERROR');
    expect(details).toBeUndefined();
    expect(await readingsOf(week.key, `${week.path}&granularity=1d`)).toHaveLength(7);
  });
});
