/** A site whose telemetry is compared with a model: the readings of its gateway, and the answers of its store. */
import { expect } from 'vitest';
import type { DeviceQuery } from '../../../protocol/history.ts';
import { GRANULARITIES, type Granularity } from '../../../protocol/telemetry.ts';
import { connectDevice, type DeviceTestLink } from './links.ts';
import { MINUTE, passTime } from './site-clock.ts';
import { type DeviceCredential, publishAll, rawTelemetry } from './site-devices.ts';
import { factOf, numberOf } from './site-rows.ts';
import { type Answered, TelemetryModel } from './telemetry-model.ts';
import { type Plant, siteOf } from './world.ts';

export const TELEMETRY_LEVELS = GRANULARITIES;

/** One message: its `ts`, and its values in thousandths. */
export interface TelemetryMessage {
  ts: number;
  data: Readonly<Record<string, number>>;
}

/** The gateway connects again each time that the site found it silent. */
export function modelled(plant: Plant) {
  const model = new TelemetryModel();
  let link: DeviceTestLink | undefined;
  /** Sends messages of the gateway in one batch; all are stored. */
  const send = async (...messages: TelemetryMessage[]): Promise<void> => {
    if (link?.socket.readyState !== WebSocket.OPEN) link = await connectDevice(plant);
    await sendAll(link, plant.gateway, messages);
    for (const { ts, data } of messages) {
      for (const [metric, thousandths] of Object.entries(data)) model.add(metric, ts, thousandths);
    }
  };
  return { model, send };
}

/** Sends messages of a device in one batch; all are stored. */
export async function sendAll(
  link: DeviceTestLink,
  device: DeviceCredential,
  messages: readonly TelemetryMessage[],
): Promise<void> {
  const payloads = messages.map(({ ts, data }) => {
    const values = Object.entries(data).map(([name, thousandths]) => [name, thousandths / 1_000]);
    return rawTelemetry(device, { ts, data: JSON.stringify(Object.fromEntries(values)) });
  });
  expect(await publishAll(link, payloads)).toEqual(payloads.map(() => true));
}

/** Makes one call for a history; it returns a part of the history. */
export async function readChunk(
  siteId: string,
  metric: string,
  granularity: Granularity,
  [fromMs, toMs]: readonly [number, number],
): Promise<{ points: Answered[]; nextMs: number | null }> {
  const query = { kind: 'telemetry', metric, fromMs, toMs, granularity } as const;
  const { items, nextMs } = await siteOf(siteId).readHistory(siteId, query);
  return { points: JSON.parse(`[${items}]`) as Answered[], nextMs };
}

/** Reads a whole history by calls that each continue where the last one ended. */
export async function readChunks(
  siteId: string,
  metric: string,
  granularity: Granularity,
  [fromMs, toMs]: readonly [number, number],
): Promise<{ points: Answered[]; calls: number }> {
  const points: Answered[] = [];
  let calls = 0;
  for (let nextMs: number | null = fromMs; nextMs !== null; calls++) {
    const chunk = await readChunk(siteId, metric, granularity, [nextMs, toMs]);
    points.push(...chunk.points);
    if (chunk.nextMs !== null) expect(chunk.nextMs).toBeGreaterThan(nextMs);
    nextMs = chunk.nextMs;
  }
  return { points, calls };
}

export async function readPoints(...query: Parameters<typeof readChunk>): Promise<Answered[]> {
  return (await readChunks(...query)).points;
}

/** What a device sent, by default all of it in one page. */
export async function readOfDevice(
  siteId: string,
  deviceId: string,
  query: Pick<DeviceQuery, 'fromMs' | 'toMs' | 'bucket'> & Partial<DeviceQuery>,
): Promise<{ rows: (Answered & { metric: string })[]; total: number }> {
  const whole = { page: 1, limit: 1_000_000, ...query };
  const { items, total } = await siteOf(siteId).readDeviceTelemetry(deviceId, whole);
  return { rows: JSON.parse(`[${items}]`) as (Answered & { metric: string })[], total };
}

/** The state of the telemetry store. */
export async function storeState(siteId: string) {
  const nothing = { packedToMs: 0, packedBlock: 1, rolledToMs: 0, bytes: {} as Record<string, number> };
  return (await factOf<typeof nothing>(siteId, 'telemetry')) ?? nothing;
}

/** Lets time pass until all readings so far are packed. */
export async function untilPacked(siteId: string): Promise<void> {
  const fromMs = Date.now();
  for (let looks = 0; looks < 20 && (await storeState(siteId)).packedToMs < fromMs + 5 * MINUTE; looks++)
    await passTime(siteId, 30 * MINUTE);
  const newest = await numberOf(siteId, 'SELECT max(id) FROM journal_block');
  expect((await storeState(siteId)).packedBlock).toBe(newest + 1);
}

/** How many parts each level has. */
export async function partCounts(siteId: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const level of TELEMETRY_LEVELS)
    counts[level] = await numberOf(siteId, `SELECT count(*) FROM telemetry_${level}`);
  return counts;
}
