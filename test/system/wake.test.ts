/** A Site with a heavy journal wakes within the memory that the platform gives it, and takes its next message [rule 9]. */
import { createHmac, randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { MqttClient } from 'mqtt';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { telemetrySigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import { siteOf } from '../../tools/objects.ts';
import type { PlantSeed } from '../../tools/seed.ts';
import type { Filling } from '../support/filling.ts';
import { TestStack } from '../support/stack.ts';

const ENTRY = join(import.meta.dirname, '..', 'support', 'workerd', 'heavy-worker.ts');
const MIB = 1024 * 1024;
const MAX_GROWTH_BYTES = 100 * MIB;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A figure of a process's status file, in bytes. */
function memory(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const line = readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm'));
  return Number(line?.[1]) * 1024;
}

describe('a site with a heavy journal', () => {
  let stack: TestStack;

  beforeAll(async () => {
    stack = await TestStack.start({ entry: ENTRY });
  });
  afterAll(() => stack.stop());

  const fill = async (plant: PlantSeed, filling: Omit<Filling, 'deviceId'>) => {
    const site = (await siteOf(stack.edge.miniflare, plant.id)) as unknown as {
      fillJournal(filling: Filling): Promise<void>;
    };
    await site.fillJournal({ deviceId: plant.gateway.id, ...filling });
  };

  /** A reading at QoS 1: when this resolves, it is stored. */
  const report = async (client: MqttClient, { gateway }: PlantSeed, data: string) => {
    const [ts, nonce] = [Date.now(), randomUUID()];
    const signed = telemetrySigningString(gateway.id, ts, nonce, data);
    const sig = createHmac('sha256', gateway.hmacSecret).update(signed).digest('hex');
    const message = `{"ts":${ts},"nonce":"${nonce}","data":${data},"sig":"${sig}"}`;
    await client.publishAsync(deviceTopic(gateway.id, 'telemetry'), message, { qos: 1 });
  };

  const connect = async ({ gateway }: PlantSeed) =>
    await stack.mqtt(gateway.id, await stack.deviceToken(gateway.id), gateway.id);

  const latest = async (plant: PlantSeed): Promise<number> => {
    const { body } = await stack.rest(`/vcp/sites/${plant.id}/telemetry/latest`);
    return (body as { payload: { gridPowerKw: number } }).payload.gridPowerKw;
  };

  /** How far the edge's process grew at most while a plant came back, told one reading and was read. */
  const growthAtWake = async (plant: PlantSeed): Promise<number> => {
    // Every object has left memory, and its data is what stood.
    await stack.killEdge();
    // A plant without a past first: what any connection costs an edge that has just begun is not the journal's.
    const light = await stack.addPlant();
    const warm = await connect(light);
    await report(warm, light, '{"gridPowerKw":1}');
    expect(await latest(light)).toBe(1);
    await warm.endAsync();

    const pid = stack.edge.pid() ?? 0;
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
    const before = memory(pid, 'VmRSS');
    const client = await connect(plant);
    await report(client, plant, '{"gridPowerKw":7}');
    expect(await latest(plant)).toBe(7);
    await client.endAsync();
    return memory(pid, 'VmHWM') - before;
  };

  it('of 1 000 readings of 118 KB in ten minutes wakes with at most 100 MB more', {
    timeout: 120_000,
  }, async () => {
    const plant = await stack.addPlant();
    const now = Date.now();
    for (let part = 0; part < 10; part++) {
      const fromMs = now - 9 * MINUTE + part * 0.8 * MINUTE;
      await fill(plant, { messages: 100, chars: 118_000, fromMs, untilMs: fromMs + 0.8 * MINUTE });
    }
    expect(await growthAtWake(plant)).toBeLessThanOrEqual(MAX_GROWTH_BYTES);
  });

  it('of 300 MB over a month wakes with at most 100 MB more, with a snapshot and without', {
    timeout: 240_000,
  }, async () => {
    const plant = await stack.addPlant();
    const now = Date.now();
    for (let part = 0; part < 60; part++) {
      const fromMs = now - (720 - part * 11) * HOUR;
      await fill(plant, { messages: 10_000, chars: 350, fromMs, untilMs: fromMs + 11 * HOUR });
    }
    expect(await growthAtWake(plant), 'without a snapshot').toBeLessThanOrEqual(MAX_GROWTH_BYTES);
    expect(await growthAtWake(plant), 'with a snapshot').toBeLessThanOrEqual(MAX_GROWTH_BYTES);
  });

  it('of 600 000 nonces in ten minutes wakes with at most 100 MB more', { timeout: 240_000 }, async () => {
    const plant = await stack.addPlant();
    const now = Date.now();
    for (let part = 0; part < 30; part++) {
      const fromMs = now - 9 * MINUTE + part * 0.28 * MINUTE;
      await fill(plant, { messages: 20_000, chars: 20, fromMs, untilMs: fromMs + 0.28 * MINUTE });
    }
    expect(await growthAtWake(plant)).toBeLessThanOrEqual(MAX_GROWTH_BYTES);
  });
});
