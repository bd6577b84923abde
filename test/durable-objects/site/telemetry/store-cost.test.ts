/** The cost of telemetry: rows written for each message, and rows read for a history [rule 9]. */
import { runInDurableObject } from 'cloudflare:test';
import { setScene } from '#workerd/scene.ts';
import { DAY, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { rawTelemetry, sendTelemetry } from '#workerd/site-devices.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { countRowsRead } from '#workerd/site-statements.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { fillHistory } from '#workerd/telemetry-filling.ts';
import { partCounts, readPoints } from '#workerd/telemetry-site.ts';
import { siteOf } from '#workerd/world.ts';

const METRIC = 'gridPowerKw';
const MIDNIGHT_MS = Date.parse('2030-03-06T00:00:00.000Z');
const EIGHT = Array.from({ length: 8 }, (_none, index) => `FVE-1/signal-${index}`);

describe('a site with a message every five seconds', () => {
  it('a message writes at most 1.1 rows including packing, and a read of the last hour reads at most 50 rows [rule 9]', async () => {
    const { plant, site, gateway, link } = await setScene({ telemetry: 'modelled', gateway: 'connected' });
    const names = ['gridPowerKw', 'fvePowerKw', 'batteryPowerKw', 'BESS-1/powerKw', 'BESS-1/socPercent'];
    const eight = [...names, 'FVE-1/powerKw', 'METER-1/powerKw', 'METER-1/importRegisterKwh'];
    let seq = 0;
    /** Sends each message in a turn of its own, and runs the alarms when they are due. */
    const sendMinutes = async (minutes: number) => {
      for (let minute = 1; minute <= minutes; minute++) {
        const fromMs = Date.now();
        setClock(fromMs + MINUTE);
        for (let second = 0; second < 60; second += 5) {
          seq += 1;
          const data = JSON.stringify(
            Object.fromEntries(eight.map((name, index) => [name, seq * 0.01 + index])),
          );
          const payload = rawTelemetry(gateway, { ts: fromMs + second * SECOND, data });
          link.send({ kind: 'publish', seq, topic: 'telemetry', payload });
        }
        const last = seq;
        await link.next((frame) => frame.kind === 'stored' && frame.seqs.includes(last));
        if (minute % 3 === 0) await passTime(plant.id, 0);
      }
    };
    await sendMinutes(1);
    const before = (await site.diagnostics(gateway.id)).rowsWritten;
    await sendMinutes(180);
    const rowsWritten = (await site.diagnostics(gateway.id)).rowsWritten - before;
    expect(rowsWritten / (180 * 12)).toBeLessThanOrEqual(1.1);
    const { raw } = await partCounts(plant.id);
    expect(raw).toBeGreaterThan(3);
    const rowsRead = await countRowsRead(plant.id);
    expect(await readPoints(plant.id, METRIC, 'raw', [Date.now() - HOUR, Date.now()])).toHaveLength(720);
    expect(await rowsRead()).toBeLessThanOrEqual(50);
  }, 60_000);
});

describe('the cost of a read', () => {
  it.for([1, 10])(
    'a read of an hour, a week, a month or a year reads at most 50 rows after %i years of data [rule 9]',
    async (years, { telemetrySite: { plant, send } }) => {
      const todayMs = MIDNIGHT_MS - DAY;
      await fillHistory(plant.id, {
        metrics: EIGHT,
        fromMs: todayMs - years * 365 * DAY,
        untilMs: todayMs,
        rawFromMs: todayMs - 30 * DAY * years,
        stepMs: 2 * HOUR,
      });
      for (let minute = 0; minute < 120; minute += 2) {
        setClock(START_MS + minute * MINUTE);
        await send({ ts: Date.now(), data: Object.fromEntries(EIGHT.map((metric) => [metric, minute])) });
      }
      await evictSite(plant.id);
      const rowsRead = await countRowsRead(plant.id);
      const now = Date.now();
      const [metric = ''] = EIGHT;
      const costs: Record<string, number> = {};
      for (const [granularity, fromMs, toMs, expected] of [
        ['raw', now - HOUR, now, 30],
        ['raw', todayMs - 5 * HOUR, todayMs - 4 * HOUR, 0],
        ['5m', now - 7 * DAY, now, 7 * 12],
        ['1h', now - 30 * DAY, now, 29 * 12],
        ['1d', now - 365 * DAY, now, 365],
      ] as const) {
        await rowsRead();
        const points = await readPoints(plant.id, metric, granularity, [fromMs, toMs]);
        expect(points.length).toBeGreaterThanOrEqual(expected);
        const cost = await rowsRead();
        costs[granularity] = Math.max(cost, costs[granularity] ?? 0);
      }
      for (const [granularity, cost] of Object.entries(costs))
        expect(cost, granularity).toBeLessThanOrEqual(50);
    },
  );
});

const MESSAGES = 720;

/** Counts the rows that a site writes from here on, and the alarms it sets. */
async function countRows(siteId: string): Promise<{ rows: number; alarms: number }> {
  const count = { rows: 0, alarms: 0 };
  await runInDurableObject(siteOf(siteId), (_site, { storage }) => {
    const exec = storage.sql.exec.bind(storage.sql);
    const counted = (query: string, ...bindings: SqlStorageValue[]) => {
      const cursor = exec(query, ...bindings);
      if (!/^\s*SELECT/i.test(query)) count.rows += cursor.rowsWritten;
      return cursor;
    };
    Object.defineProperty(storage.sql, 'exec', { configurable: true, value: counted });
    const setAlarm = storage.setAlarm.bind(storage);
    storage.setAlarm = ((atMs: number) => {
      count.alarms += 1;
      return setAlarm(atMs);
    }) as typeof storage.setAlarm;
  });
  return count;
}

it('telemetry every 5 s for an hour writes at most 1.1 rows a message, including events, presence, packing and alarms [rule 9]', async () => {
  const { plant, link, gateway } = await setScene({ gateway: 'listening' });
  await passTime(plant.id, 10 * SECOND);
  await sendTelemetry(link, gateway, { 'METER-1/powerKw': 1, 'BESS-1/powerKw': 1, 'FVE-1/powerKw': 1 });
  await passTime(plant.id, 10 * SECOND);
  const count = await countRows(plant.id);
  for (let sent = 0; sent < MESSAGES; sent++) {
    await passTime(plant.id, 5 * SECOND);
    await sendTelemetry(link, gateway, {
      gridPowerKw: sent + 0.123,
      fvePowerKw: 3.456,
      'METER-1/powerKw': sent + 0.5,
      'METER-1/importRegisterKwh': 5_123.5 + sent,
      'METER-1/exportRegisterKwh': 512,
      'BESS-1/powerKw': 1.5,
      'BESS-1/socPercent': 55.5,
      'FVE-1/powerKw': 3,
    });
  }
  expect(await numberOf(plant.id, 'SELECT count(*) FROM telemetry_raw')).toBeGreaterThan(0);
  expect((count.rows + count.alarms) / MESSAGES).toBeLessThanOrEqual(1.1);
});
