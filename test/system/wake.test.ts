/**
 * A Site with a heavy journal wakes within the platform's memory limit, and accepts its next message [rule
 * 9].
 */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Filling } from '#support/filling.ts';
import { forgetPeak, peakMib, residentMib } from '#support/process-memory.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { siteOf } from '../../tools/objects.ts';
import type { SeededPlant } from '../../tools/seed.ts';

const ENTRY = join(import.meta.dirname, '..', 'support', 'workerd', 'heavy-worker.ts');
const MAX_GROWTH_MIB = 100;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe('a site with a heavy journal', () => {
  const stack = suiteStack({ entry: ENTRY });

  const fill = async (plant: SeededPlant, filling: Omit<Filling, 'deviceId'>) => {
    const site = (await siteOf(stack.edge.miniflare, plant.id)) as unknown as {
      fillJournal(filling: Filling): Promise<void>;
    };
    await site.fillJournal({ deviceId: plant.gateway.id, ...filling });
  };

  /** A plant connects, reports one reading, which is stored, and is read. */
  const report = async (plant: SeededPlant, gridPowerKw: number) => {
    const gateway = await stack.gateway(plant.gateway);
    await gateway.publishTelemetry({ gridPowerKw });
    const { body } = await stack.rest(`/vcp/sites/${plant.id}/telemetry/latest`);
    expect((body as { payload: unknown }).payload).toMatchObject({ gridPowerKw });
    await gateway.stop();
  };

  /**
   * The peak growth of the edge's process, in MiB, while a plant reconnected, reported one reading and was
   * read.
   */
  const growthAtWake = async (plant: SeededPlant): Promise<number> => {
    // Every object has left memory, and only stored data remains.
    await stack.killEdge();
    // A plant without history goes first, so that the cost of a first connection is not attributed to the
    // journal.
    await report(await stack.addPlant(), 1);

    const pid = stack.edge.pid();
    const before = residentMib(pid);
    forgetPeak(pid);
    await report(plant, 7);
    return peakMib(pid) - before;
  };

  it('uses at most 100 MB more memory when it wakes with 1 000 readings of 118 KB in ten minutes', {
    timeout: 120_000,
  }, async () => {
    const plant = await stack.addPlant();
    const now = Date.now();
    for (let part = 0; part < 10; part++) {
      const fromMs = now - 9 * MINUTE + part * 0.8 * MINUTE;
      await fill(plant, { messages: 100, chars: 118_000, fromMs, untilMs: fromMs + 0.8 * MINUTE });
    }
    expect(await growthAtWake(plant)).toBeLessThanOrEqual(MAX_GROWTH_MIB);
  });

  it('uses at most 100 MB more memory when it wakes with 300 MB over a month, with a snapshot and without', {
    timeout: 240_000,
  }, async () => {
    const plant = await stack.addPlant();
    const now = Date.now();
    for (let part = 0; part < 60; part++) {
      const fromMs = now - (720 - part * 11) * HOUR;
      await fill(plant, { messages: 10_000, chars: 350, fromMs, untilMs: fromMs + 11 * HOUR });
    }
    expect(await growthAtWake(plant), 'without a snapshot').toBeLessThanOrEqual(MAX_GROWTH_MIB);
    expect(await growthAtWake(plant), 'with a snapshot').toBeLessThanOrEqual(MAX_GROWTH_MIB);
  });

  it('uses at most 100 MB more memory when it wakes with 600 000 nonces in ten minutes', {
    timeout: 240_000,
  }, async () => {
    const plant = await stack.addPlant();
    const now = Date.now();
    for (let part = 0; part < 30; part++) {
      const fromMs = now - 9 * MINUTE + part * 0.28 * MINUTE;
      await fill(plant, { messages: 20_000, chars: 20, fromMs, untilMs: fromMs + 0.28 * MINUTE });
    }
    expect(await growthAtWake(plant)).toBeLessThanOrEqual(MAX_GROWTH_MIB);
  });
});
