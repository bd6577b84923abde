/**
 * The cost and growth of telemetry in a site: rows written, rows kept, bytes, and names that devices invent
 * [rule 9].
 */
import { vi } from 'vitest';
import { connectDevice } from '#workerd/links.ts';
import { changeAndNotifySite, changeSettings } from '#workerd/registry-changes.ts';
import { setScene } from '#workerd/scene.ts';
import { boundSite } from '#workerd/site-bounds.ts';
import { DAY, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { evictSite, numberOf, rowsOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { fillHistory } from '#workerd/telemetry-filling.ts';
import {
  partCounts,
  readPoints,
  sendAll,
  storeState,
  TELEMETRY_LEVELS,
  untilPacked,
} from '#workerd/telemetry-site.ts';
import { LIMIT } from '../../../../protocol/limits.ts';

const METRIC = 'gridPowerKw';
const MAX_ROW_BYTES = 1024 * 1024;
const MIDNIGHT_MS = Date.parse('2030-03-06T00:00:00.000Z');
const BLOCKS = 'SELECT count(*) FROM journal_block';

/** The bytes of a level as the site counts them, which equal the stored bytes. */
async function bytesOf(siteId: string, level: (typeof TELEMETRY_LEVELS)[number]): Promise<number> {
  const held = await numberOf(
    siteId,
    `SELECT coalesce(sum(length(directory) + length(data)), 0) FROM telemetry_${level}`,
  );
  expect((await storeState(siteId)).bytes[level], level).toBe(held);
  return held;
}

/** The begin and end of each segment of a level, oldest first. */
async function stretchesOf(siteId: string, level: (typeof TELEMETRY_LEVELS)[number]) {
  return await rowsOf<{ start_ms: number; end_ms: number }>(
    siteId,
    `SELECT DISTINCT id / 1024 * 60000 AS start_ms, end_ms FROM telemetry_${level} ORDER BY id`,
  );
}

/** The begin of each segment of a level, oldest first. */
async function startsOf(siteId: string, level: (typeof TELEMETRY_LEVELS)[number]): Promise<number[]> {
  return (await stretchesOf(siteId, level)).map(({ start_ms }) => start_ms);
}

/** The metrics of each segment of a level. */
async function metricsOf(siteId: string, level: (typeof TELEMETRY_LEVELS)[number]): Promise<string[][]> {
  const rows = await rowsOf<{ directory: string }>(siteId, `SELECT directory FROM telemetry_${level}`);
  return rows.map(({ directory }) => Object.keys(JSON.parse(directory).metrics));
}

describe('the journal of a site', () => {
  it('the journal does not grow from hour 29 on, because a new block reuses the row of a packed one [rule 9]', async () => {
    const { plant, send, model } = await setScene({ plant: true, telemetry: 'modelled' });
    const sendUntil = async (hours: number) => {
      while (Date.now() < START_MS + hours * HOUR) {
        setClock(Date.now() + 30 * MINUTE);
        await send({ ts: Date.now(), data: { [METRIC]: Date.now() % 977 } });
        await passTime(plant.id, SECOND);
      }
    };
    await sendUntil(29);
    const blocks = await numberOf(plant.id, BLOCKS);
    const newest = await numberOf(plant.id, 'SELECT max(id) FROM journal_block');
    await sendUntil(45);
    expect(await numberOf(plant.id, BLOCKS)).toBe(blocks);
    expect(await numberOf(plant.id, 'SELECT max(id) FROM journal_block')).toBe(newest + 32);
    // Verdicts read the original messages of the last 26 hours.
    const oldest = await numberOf(plant.id, 'SELECT min(last_at_ms) FROM journal_block');
    expect(Date.now() - oldest).toBeGreaterThan(26 * HOUR - 30 * MINUTE);
    await evictSite(plant.id);
    const range = [0, Date.now() + 1] as const;
    expect(await readPoints(plant.id, METRIC, 'raw', range)).toEqual(model.points(METRIC, 'raw', range));
  });
});

describe('a history at its age limit', () => {
  it('whole segments over the age limit of the organization are deleted, oldest first [rule 9]', async () => {
    const { organization, plant } = await setScene({ plant: true, telemetry: 'modelled' });
    const untilMs = MIDNIGHT_MS - 2 * DAY;
    const fromMs = untilMs - 500 * DAY;
    const filling = { metrics: [METRIC], fromMs, untilMs, rawFromMs: untilMs - 12 * DAY, stepMs: 2 * HOUR };
    await fillHistory(plant.id, filling);
    const settings = { rawRetentionDays: 7, fiveMinuteRetentionDays: 30, hourlyRetentionDays: 365 };
    const before = Object.fromEntries(
      await Promise.all(
        TELEMETRY_LEVELS.map(async (level) => [level, await stretchesOf(plant.id, level)] as const),
      ),
    );
    await changeAndNotifySite(organization, plant.id, changeSettings(settings));
    await passTime(plant.id, HOUR);
    const now = Date.now();
    const days = { raw: 7, '5m': 30, '1h': 365, '1d': 365 };
    for (const level of TELEMETRY_LEVELS) {
      const left = await stretchesOf(plant.id, level);
      const expected = (before[level] ?? []).filter(({ end_ms }) => end_ms > now - days[level] * DAY);
      expect(left, level).toEqual(expected);
      expect(left.length, level).toBeGreaterThan(0);
      if (level !== '1d') expect(left.length, level).toBeLessThan(before[level]?.length ?? 0);
      await bytesOf(plant.id, level);
    }
    expect(await readPoints(plant.id, METRIC, '5m', [fromMs, now - 31 * DAY])).toEqual([]);
    const year = await readPoints(plant.id, METRIC, '1d', [fromMs, now]);
    expect(year.map(({ value }) => value)).toEqual(Array(year.length).fill(11));
  });

  it('a silent site keeps the newest segment of each level at any age, and runs at most one alarm in three hours [rule 9]', async () => {
    const { plant, send } = await setScene({ plant: true, telemetry: 'modelled' });
    for (const atMs of [START_MS, START_MS + DAY]) {
      setClock(atMs);
      await send({ ts: atMs, data: { [METRIC]: 1_000 } });
      await untilPacked(plant.id);
    }
    await passTime(plant.id, MINUTE);
    expect(await partCounts(plant.id)).toEqual({ raw: 2, '5m': 2, '1h': 1, '1d': 1 });
    for (const days of [31, 366, 4_000]) {
      setClock(START_MS + days * DAY);
      await passTime(plant.id, HOUR);
      expect(await passTime(plant.id, 3 * HOUR)).toBeLessThanOrEqual(1);
    }
    expect(await partCounts(plant.id)).toEqual({ raw: 1, '5m': 1, '1h': 1, '1d': 1 });
    expect(await readPoints(plant.id, METRIC, 'raw', [0, Date.now()])).toHaveLength(1);
  });
});

describe('a history at its budget', () => {
  it.for(TELEMETRY_LEVELS)(
    'the level %s deletes whole segments, oldest first, until it is within its budget [rule 9]',
    async (level, { telemetrySite: { plant } }) => {
      vi.spyOn(console, 'warn').mockReturnValue(undefined);
      const untilMs = MIDNIGHT_MS - DAY;
      const pages = { raw: 4 * DAY, '5m': 40 * DAY, '1h': 300 * DAY, '1d': 2_000 * DAY }[level];
      await fillHistory(plant.id, {
        metrics: [METRIC, 'fvePowerKw', 'BESS-1/powerKw'],
        fromMs: untilMs - pages,
        untilMs,
        rawFromMs: untilMs - 4 * DAY,
        stepMs: 6 * HOUR,
      });
      const before = await startsOf(plant.id, level);
      const all = await bytesOf(plant.id, level);
      expect(before.length).toBeGreaterThan(3);
      // Makes all segments young, so that none is deleted for its age.
      await rowsOf(plant.id, `UPDATE telemetry_${level} SET end_ms = ${Date.now()}`);
      await boundSite(plant.id, { [`${level}Bytes`]: Math.floor(all / 2) });
      await passTime(plant.id, HOUR);
      const left = await startsOf(plant.id, level);
      expect(left).toEqual(before.slice(-left.length));
      const held = await bytesOf(plant.id, level);
      expect(held).toBeLessThanOrEqual(all / 2);
      expect(held).toBeGreaterThan(all / 2 - (3 * all) / before.length);
      await boundSite(plant.id, { [`${level}Bytes`]: 1 });
      await passTime(plant.id, HOUR);
      expect(await startsOf(plant.id, level)).toEqual(before.slice(-1));
    },
  );
});

describe('names that a device invents', () => {
  it('invented names fill a page only to its limit, rows stay under 1 MB, and known metrics are still stored [rule 9]', async () => {
    const { plant, send, model, gateway } = await setScene({ plant: true, telemetry: 'modelled' });
    const warn = vi.spyOn(console, 'warn').mockReturnValue(undefined);
    await boundSite(plant.id, { unpackedBlocks: 1, signalsPerPage: 1_200 });
    for (let round = 0; round < 8; round++) {
      setClock(START_MS + round * 30 * MINUTE);
      await send({ ts: Date.now(), data: { [METRIC]: round } });
      // Names as long as JSON allows. Registers also have a stored state.
      const names = Array.from({ length: 700 }, (_none, index) => {
        const end = `${round}-${index}${index % 2 ? 'RegisterKwh' : ''}`;
        return `${'"'.repeat(128 - end.length)}${end}`;
      });
      const data = Object.fromEntries(names.map((name) => [name, 1_000]));
      await sendAll(await connectDevice(plant), gateway, [{ ts: Date.now(), data }]);
      setClock(Date.now() + 25 * MINUTE);
      await passTime(plant.id, SECOND);
    }
    await untilPacked(plant.id);
    await evictSite(plant.id);
    const inPage = (await metricsOf(plant.id, '5m')).flat();
    expect(inPage).toHaveLength(1_200);
    expect(inPage).toContain(METRIC);
    // Of the unknown names, at most the number in the snapshot.
    const packed = await metricsOf(plant.id, 'raw');
    expect(Math.max(...packed.map((metrics) => metrics.length))).toBeLessThanOrEqual(
      LIMIT.unknownSignalsPerSite + 1,
    );
    expect(warn).toHaveBeenCalledWith(
      'roll-up page has the maximum number of signal names, further ones left out of it',
      expect.anything(),
    );
    for (const [table, row] of [
      ['telemetry_raw', 'length(directory) + length(data)'],
      ['telemetry_5m', 'length(directory) + length(data)'],
      ['fact', 'length(value)'],
    ]) {
      expect(await numberOf(plant.id, `SELECT max(${row}) FROM ${table}`)).toBeLessThanOrEqual(MAX_ROW_BYTES);
    }
    const range = [0, Date.now()] as const;
    for (const level of TELEMETRY_LEVELS)
      expect(await readPoints(plant.id, METRIC, level, range)).toEqual(model.points(METRIC, level, range));
  });

  it('a full page of the longest names creates no row of over 1 MB [rule 9]', async () => {
    const { plant } = await setScene({ plant: true, telemetry: 'modelled' });
    const names = Array.from({ length: 3_000 }, (_none, index) => {
      const end = String(index);
      return `@${plant.gateway.id}/${'"'.repeat(128 - end.length)}${end}`;
    });
    const untilMs = MIDNIGHT_MS;
    const filling = { metrics: names, fromMs: untilMs - DAY, untilMs, rawFromMs: untilMs, stepMs: DAY };
    await fillHistory(plant.id, filling);
    for (const level of ['5m', '1h', '1d'] as const) {
      const row = `SELECT max(length(directory) + length(data)) FROM telemetry_${level}`;
      expect(await numberOf(plant.id, row)).toBeLessThanOrEqual(MAX_ROW_BYTES);
    }
    const points = await readPoints(plant.id, names.at(-1) ?? '', '1d', [untilMs - DAY, untilMs]);
    expect(points).toHaveLength(1);
  });
});
