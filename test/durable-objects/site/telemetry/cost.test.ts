/** What telemetry costs: rows are the bill, and an alarm that is set is one. */
import { runInDurableObject } from 'cloudflare:test';
import { expect, it } from 'vitest';
import { holdClock, passTime, SECOND } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { numberOf } from '#workerd/site-rows.ts';
import { newListeningSite } from '#workerd/site-scenes.ts';
import { siteOf } from '#workerd/world.ts';

holdClock();

const MESSAGES = 720;

/** What a site writes from here on, alarms included. */
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

it('is at most 1.1 rows a message at one every 5 s for an hour: events, presence, packing and alarms in it [rule 9]', async () => {
  const { plant, link, gateway } = await newListeningSite();
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
