/**
 * Journal reads after a wake: none until they are needed, then the last ten minutes, and all of it if
 * necessary.
 */
import { vi } from 'vitest';
import { setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  droppedOf,
  manySignals,
  publish,
  publishAll,
  rawTelemetry,
  sendTelemetry,
} from '#workerd/site-devices.ts';
import { newestCommand, readCommands, readConfig } from '#workerd/site-reads.ts';
import { breakWrites, evictSite, numberOf, repair, rowsOf } from '#workerd/site-rows.ts';
import { noteStatements } from '#workerd/site-statements.ts';
import { charge } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { siteOf } from '#workerd/world.ts';
import { SITE_BOUNDS } from '../../../../durable-objects/site/bounds.ts';
import { JournalRows } from '../../../../durable-objects/site/telemetry/rows.ts';

/** The statements that read messages, and not only the bounds of blocks. */
const ofJournal = (statements: readonly string[]) =>
  statements.filter((one) => /journal_block/.test(one) && /^SELECT (\*|data\b|.*, data\b)/.test(one));

/** Records the lengths of the blocks that each read takes, of all objects, until `vi.restoreAllMocks()`. */
function noteBlocks(): number[][] {
  const readings: number[][] = [];
  const { since } = JournalRows.prototype;
  vi.spyOn(JournalRows.prototype, 'since').mockImplementation(function* (this: JournalRows, ...bounds) {
    const lengths: number[] = [];
    readings.push(lengths);
    for (const block of since.apply(this, bounds)) {
      lengths.push(block.length);
      yield block;
    }
  });
  return readings;
}

/** Evicts the site, and records its statements from then on. */
async function statementsSinceWake(siteId: string) {
  const statements = await noteStatements(siteId);
  await evictSite(siteId);
  statements.length = 0;
  return statements;
}

async function latest(siteId: string) {
  return (await siteOf(siteId).readLatestTelemetry(siteId)).payload;
}

describe('a wake', () => {
  it('does not read the journal until it is needed, even with a connected device [rule 9]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'listening' });
    await sendTelemetry(link, gateway, { gridPowerKw: 7 });
    const statements = await statementsSinceWake(plant.id);
    await siteOf(plant.id).pageRestCommands(gateway.id, 1, 1);
    expect(statements.length).toBeGreaterThan(0);
    expect(ofJournal(statements)).toEqual([]);
    vi.restoreAllMocks();
    expect((await latest(plant.id)).gridPowerKw).toBe(7);
  });

  it.each<[string, (siteId: string) => Promise<unknown>]>([
    ['the command log', (siteId) => readCommands(siteId)],
    ['the configuration', (siteId) => readConfig(siteId)],
  ])('for a read of %s does not read the journal [rule 9]', async (_what, read) => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    await sendTelemetry(link, gateway, { gridPowerKw: 7 });
    const statements = await statementsSinceWake(plant.id);
    await read(plant.id);
    expect(ofJournal(statements)).toEqual([]);
  });

  it('reads one block at a time, and only the blocks of the last ten minutes [rule 9]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const filler = manySignals(300);
    for (let minute = 0; minute < 40; minute++) {
      setClock(START_MS + minute * MINUTE);
      await publishAll(
        link,
        [1, 2, 3].map(() => rawTelemetry(gateway, { data: filler })),
      );
    }
    const blocks = 'SELECT count(*) FROM journal_block';
    const young = await numberOf(plant.id, `${blocks} WHERE last_at_ms >= ${Date.now() - 10 * MINUTE}`);
    expect(await numberOf(plant.id, blocks)).toBeGreaterThan(3 * young);
    await evictSite(plant.id);
    const readings = noteBlocks();
    await sendTelemetry(link, gateway, { gridPowerKw: 1 });
    vi.restoreAllMocks();
    // One read for the nonces of ten minutes, and one for the values since the last snapshot.
    expect(readings.map((lengths) => lengths.length).sort((left, right) => right - left)).toEqual([
      young,
      expect.toSatisfy((since: number) => since > 0 && since < young),
    ]);
    expect(Math.max(...readings.flat())).toBeLessThanOrEqual(SITE_BOUNDS.blockChars + 2 * filler.length);
    expect((await latest(plant.id)).gridPowerKw).toBe(1);
  });
});

describe('the latest values of a plant', () => {
  it('the latest values of a new plant survive its first wake, however late that is [C-4.1]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    await sendTelemetry(link, gateway, { gridPowerKw: 7, 'BESS-1/socPercent': 50 });
    for (const afterMs of [11 * MINUTE, HOUR, 30 * 24 * HOUR]) {
      setClock(START_MS + afterMs);
      await evictSite(plant.id);
      expect(await latest(plant.id)).toMatchObject({ gridPowerKw: 7, socPercent: 50, dataQuality: 'STALE' });
    }
  });

  it('the latest values are read from the first block if no snapshot is stored [C-4.1]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    await sendTelemetry(link, gateway, { 'BESS-1/socPercent': 50 });
    for (let minute = 6; minute <= 60; minute += 6) {
      setClock(START_MS + minute * MINUTE);
      await sendTelemetry(link, gateway, { gridPowerKw: minute });
    }
    await rowsOf(plant.id, `DELETE FROM fact WHERE name = 'snapshot'`);
    await evictSite(plant.id);
    expect(await latest(plant.id)).toMatchObject({ gridPowerKw: 60, socPercent: 50 });
  });

  it('the latest values are stored about once in five minutes, not with each block [rule 9]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const filler = 'x'.repeat(100);
    const large = JSON.stringify(
      Object.fromEntries(Array.from({ length: 90 }, (_none, index) => [`${filler}${index}`, 1])),
    );
    await rowsOf(plant.id, 'CREATE TABLE snapshot_writes (at INTEGER)');
    await rowsOf(
      plant.id,
      `CREATE TRIGGER counted AFTER INSERT ON fact WHEN NEW.name = 'snapshot' BEGIN INSERT INTO snapshot_writes VALUES (1); END`,
    );
    for (let second = 0; second <= 20 * 60; second += 10) {
      setClock(START_MS + second * SECOND);
      await publish(link, rawTelemetry(gateway, { data: large }));
    }
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBeGreaterThan(50);
    const writes = await numberOf(plant.id, 'SELECT count(*) FROM snapshot_writes');
    expect(writes).toBeGreaterThanOrEqual(3);
    expect(writes).toBeLessThanOrEqual(6);
  });

  it('if the latest values cannot be stored, no reading is lost, also after a wake [rule 9]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    await breakWrites(plant.id, 'INSERT ON fact', `NEW.name = 'snapshot'`);
    for (let minute = 0; minute <= 30; minute += 5) {
      setClock(START_MS + minute * MINUTE);
      expect(await sendTelemetry(link, gateway, { gridPowerKw: minute })).toBe(true);
    }
    expect(link.closed).toBeUndefined();
    await evictSite(plant.id);
    expect((await latest(plant.id)).gridPowerKw).toBe(30);
    await repair(plant.id);
    expect(await sendTelemetry(link, gateway, { fvePowerKw: 1 })).toBe(true);
  });
});

describe('the nonces of the last ten minutes', () => {
  it('all nonces of the last ten minutes are known after a wake, and other messages with them are rejected [C-3.8]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const filler = manySignals(100);
    const sent: string[] = [];
    for (let second = 0; second < 300; second += 5) {
      setClock(START_MS + second * SECOND);
      const message = rawTelemetry(gateway, { data: filler });
      sent.push(message);
      await publish(link, message);
    }
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBeGreaterThan(5);
    await evictSite(plant.id);
    const before = await numberOf(plant.id, 'SELECT sum(size) FROM journal_block');
    // The same messages again: known, and stored once.
    expect(await publishAll(link, sent)).toEqual(Array(sent.length).fill(true));
    expect(await numberOf(plant.id, 'SELECT sum(size) FROM journal_block')).toBe(before);
    const forged = sent.map((message) =>
      rawTelemetry(gateway, { nonce: JSON.parse(message).nonce, data: '{"gridPowerKw":666}' }),
    );
    await publishAll(link, forged);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: sent.length });
    expect(await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":1}' }))).toBe(true);
    expect((await latest(plant.id)).gridPowerKw).toBe(1);
  });

  it('nonces are known after a wake by a command, before telemetry arrives [C-3.8]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    const first = rawTelemetry(plant.gateway, { nonce: 'n', data: '{"gridPowerKw":1}' });
    await publish(link, first);
    await evictSite(plant.id);
    await partner.submit(charge());
    await publish(link, rawTelemetry(plant.gateway, { nonce: 'n', data: '{"gridPowerKw":2}' }));
    expect(await droppedOf(plant.id, plant.gateway.id)).toEqual({ NONCE: 1 });
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'PENDING' });
  });
});
