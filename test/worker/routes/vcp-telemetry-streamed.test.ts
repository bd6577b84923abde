/** A history that is too long for one call: it goes out as it is read, and never pretends to have ended [C-4.5]. */
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import worker from '../../../worker/index.ts';
import { expectError, read, restRequest, send } from '../../support/workerd/rest.ts';
import { boundSite, restoreBounds } from '../../support/workerd/site-bounds.ts';
import { DAY, holdClock, MINUTE } from '../../support/workerd/site-clock.ts';
import { evictSite, rowsOf } from '../../support/workerd/site-rows.ts';
import { fillHistory } from '../../support/workerd/telemetry-filling.ts';
import type { Answered } from '../../support/workerd/telemetry-model.ts';
import { newTelemetrySite } from '../../support/workerd/telemetry-site.ts';
import { createKey, type Key } from '../../support/workerd/world.ts';

holdClock();
restoreBounds();

const METRIC = 'gridPowerKw';
const MIDNIGHT_MS = Date.parse('2030-03-05T00:00:00.000Z');

function pathOf(siteId: string, query: string): string {
  return `/api/v1/vcp/sites/${siteId}/telemetry?${query}`;
}

async function readingsOf(siteId: string, { key }: Key, query: string): Promise<Answered[]> {
  return (await read<{ readings: Answered[] }>(pathOf(siteId, query), key)).readings;
}

/** Reads an answer of 200 piece by piece, as a client does: its text, and whether it came to its end. */
async function take(
  request: Request,
  between: () => Promise<void>,
): Promise<{ text: string; isWhole: boolean }> {
  const context = createExecutionContext();
  const response = await worker.fetch(request, env, context);
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
  const fromMs = MIDNIGHT_MS - 7 * DAY;
  const range = { from: new Date(fromMs).toISOString(), to: '2030-03-05T00:00:00Z' };
  const week = new URLSearchParams({ metric: METRIC, ...range }).toString();

  async function newWeek() {
    const scene = await newTelemetrySite();
    const filling = { metrics: [METRIC], fromMs, untilMs: MIDNIGHT_MS, rawFromMs: fromMs, stepMs: MINUTE };
    await fillHistory(scene.plant.id, filling);
    const key = await createKey(scene.organization);
    return { ...scene, key };
  }

  it.each([20_000, 500, 1])(
    'comes whole in one answer, at %i points a call [C-4.5]',
    async (pointsPerCall) => {
      const { plant, key } = await newWeek();
      await boundSite(plant.id, { pointsPerCall });
      const readings = await readingsOf(plant.id, key, week);
      const expected = Array.from({ length: 7 * 24 * 60 }, (_none, minute) => ({
        timestamp: new Date(fromMs + minute * MINUTE).toISOString(),
        value: Math.floor(minute / 60) % 24,
      }));
      expect(readings).toEqual(expected);
    },
  );

  it('comes in pieces, as its client takes them, over a wake too [C-4.5]', async () => {
    const { plant, key } = await newWeek();
    await boundSite(plant.id, { pointsPerCall: 500 });
    let pieces = 0;
    const { text, isWhole } = await take(restRequest(pathOf(plant.id, week), key), async () => {
      pieces += 1;
      await evictSite(plant.id);
    });
    expect([isWhole, pieces]).toEqual([true, expect.toSatisfy((count: number) => count > 15)]);
    expect((JSON.parse(text) as { readings: Answered[] }).readings).toHaveLength(7 * 24 * 60);
  });

  it('breaks off where it cannot be read behind the first call: what came is no JSON [C-10]', async () => {
    const { plant, key } = await newWeek();
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    await boundSite(plant.id, { pointsPerCall: 500 });
    await rowsOf(plant.id, `UPDATE telemetry_raw SET data = x'00' WHERE end_ms > ${fromMs + 3 * DAY}`);
    const { text, isWhole } = await take(restRequest(pathOf(plant.id, week), key), async () => {});
    expect(isWhole).toBe(false);
    expect(text.length).toBeGreaterThan(500);
    expect(() => JSON.parse(text)).toThrow();
    expect(text).not.toContain(']');
  });

  it('that cannot be read at all is the envelope, without detail [C-10]', async () => {
    const { plant, key } = await newWeek();
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    await rowsOf(plant.id, `UPDATE telemetry_raw SET data = x'00'`);
    const { details } = await expectError(
      await send(pathOf(plant.id, week), key),
      500,
      'INTERNAL_SERVER_ERROR',
    );
    expect(details).toBeUndefined();
    expect(await readingsOf(plant.id, key, `${week}&granularity=1d`)).toHaveLength(7);
  });
});
