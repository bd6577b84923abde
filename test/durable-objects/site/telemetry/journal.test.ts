/** The telemetry journal: its cost, the size of its rows, and the nonces it restores after a wake. */
import { vi } from 'vitest';
import { connectDevice } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  connectTo,
  droppedOf,
  manySignals,
  publish,
  publishAll,
  rawTelemetry,
  sendStatus,
  sendTelemetry,
} from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { columnOf, evictSite, numberOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, type Plant } from '#workerd/world.ts';

const BLOCK_BYTES = 8 * 1024;
const LARGE_DATA = manySignals(800);

async function timesStored(siteId: string, text: string): Promise<number> {
  const removed = `sum(length(data) - length(replace(data, '${text}', '')))`;
  return (await numberOf(siteId, `SELECT ${removed} FROM journal_block`)) / text.length;
}

async function blocks(siteId: string): Promise<number> {
  return await numberOf(siteId, 'SELECT count(*) FROM journal_block');
}

/** Enough messages to close the open block by its size. */
function largeMessages(plant: Plant): string[] {
  const count = Math.ceil(BLOCK_BYTES / LARGE_DATA.length) + 1;
  return Array.from({ length: count }, () => rawTelemetry(plant.gateway, { data: LARGE_DATA }));
}

describe('a nonce', () => {
  const cases = ['one block', 'two blocks by size', 'blocks by time'].flatMap((stored) =>
    [1, 299, 599].map((after) => ({ stored, after })),
  );

  it.for(cases)(
    'is still known as used after an eviction $after s later if its message was dated 5 min ahead, stored as $stored [C-3.8]',
    async (one, { connectedSite: { plant, link, gateway } }) => {
      const nonce = 'a "nonce" \\ of\nč 😀';
      const original = rawTelemetry(gateway, { ts: START_MS + 5 * MINUTE, nonce, data: '{"gridPowerKw":1}' });
      const others = one.stored === 'two blocks by size' ? largeMessages(plant) : [];
      await publishAll(link, [original, ...others]);
      for (let after = 61; one.stored === 'blocks by time' && after < one.after; after += 60) {
        setClock(START_MS + after * SECOND);
        await sendTelemetry(link, gateway, { fvePowerKw: 1 });
      }
      setClock(START_MS + one.after * SECOND);
      await evictSite(plant.id);

      const altered = rawTelemetry(gateway, { nonce, data: '{"gridPowerKw":2}' });
      expect(await publish(link, altered)).toBe(true);
      expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: 1 });
      expect(await publish(link, original)).toBe(true);
      expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: 1 });
      expect(await timesStored(plant.id, '"gridPowerKw":2')).toBe(0);
      expect(await timesStored(plant.id, '"gridPowerKw":1')).toBe(1);
    },
  );

  it('counts as new again after ten minutes if its message was dated 5 min ahead [C-3.8]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const ahead = { ts: START_MS + 5 * MINUTE, nonce: 'n', data: '{"gridPowerKw":1}' };
    await publish(link, rawTelemetry(gateway, ahead));
    setClock(START_MS + 10 * MINUTE + SECOND);
    await publish(link, rawTelemetry(gateway, { nonce: 'n', data: '{"gridPowerKw":2}' }));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
  });

  it('is rejected, once it was used, through another bridge, and in a status message [C-3.8]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    await publish(link, rawTelemetry(gateway, { nonce: 'n', data: '{"gridPowerKw":1}' }));
    const other = await connectDevice(plant, { bridge: 'bridge-2' });
    await publish(other, rawTelemetry(gateway, { nonce: 'n', data: '{"gridPowerKw":2}' }));
    await sendStatus(other, gateway, 'ERROR', 'n');
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: 2 });
  });

  it('used several times in one batch is valid only for the first message [C-3.8]', async () => {
    const { plant, link, gateway, site } = await setScene({ gateway: 'connected' });
    const values = [1, 2, 3].map((kw) => ({ nonce: 'n', data: `{"gridPowerKw":${kw}}` }));
    const messages = values.map((fields) => rawTelemetry(gateway, fields));
    expect(await publishAll(link, messages)).toEqual([true, true, true]);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: 2 });
    expect((await site.readLatestTelemetry(plant.id)).payload.gridPowerKw).toBe(1);
  });

  it('can be used by another device, also after an eviction [C-3.8]', async () => {
    const { organization, plant } = await setScene({ plant: true });
    const second = await createDevice(organization, plant.id, 'SENSOR');
    const first = await connectDevice(plant);
    await publish(first, rawTelemetry(plant.gateway, { nonce: 'n', data: '{"gridPowerKw":1}' }));
    await evictSite(plant.id);
    const link = await connectTo(plant.id, second.id);
    expect(await publish(link, rawTelemetry(second, { nonce: 'n', data: '{"powerKw":2}' }))).toBe(true);
    expect(await droppedOf(plant.id, second.id)).toEqual({});
    expect(await timesStored(plant.id, '"powerKw":2')).toBe(1);
  });
});

describe('the rows of the journal', () => {
  it('journal rows stay within 8 KB plus one message, and 20 000 messages write at most 1.1 rows each [rule 9]', async () => {
    const { plant, link, site, gateway } = await setScene({ gateway: 'connected' });
    const before = (await site.diagnostics(gateway.id)).rowsWritten;
    const data = '{"gridPowerKw":1.5,"BESS-1/powerKw":-2.25,"BESS-1/socPercent":55,"FVE-1/powerKw":3}';
    let longestLine = 0;
    for (let batch = 0; batch < 100; batch++) {
      setClock(Date.now() + 2 * SECOND);
      const frames = Array.from({ length: 200 }, (_none, index) => {
        const payload = rawTelemetry(gateway, { data });
        longestLine = Math.max(longestLine, payload.length);
        return { kind: 'publish', seq: batch * 200 + index, topic: 'telemetry', payload } as const;
      });
      link.send(...frames);
      const last = batch * 200 + 199;
      await link.next((frame) => frame.kind === 'stored' && frame.seqs.includes(last));
    }
    const stored = link.received.flatMap((frame) => (frame.kind === 'stored' ? frame.seqs : []));
    expect(new Set(stored).size).toBe(20_000);
    expect(await timesStored(plant.id, '\n')).toBe(20_000);
    const longest = await numberOf(plant.id, 'SELECT max(length(CAST(data AS BLOB))) FROM journal_block');
    expect(longest).toBeLessThanOrEqual(BLOCK_BYTES + longestLine);
    expect(await blocks(plant.id)).toBeGreaterThan(200);
    const rowsWritten = (await site.diagnostics(gateway.id)).rowsWritten - before;
    expect(rowsWritten / 20_000).toBeLessThanOrEqual(1.1);
  });

  it('single messages every ten seconds write at most 1.1 journal rows each [rule 9]', async () => {
    const { plant, link, site, gateway } = await setScene({ gateway: 'connected' });
    await sendTelemetry(link, gateway, { gridPowerKw: 0, 'BESS-1/powerKw': 1 });
    await passTime(plant.id, 10 * SECOND);
    const before = (await site.diagnostics(gateway.id)).rowsWritten;
    for (let index = 0; index < 360; index++) {
      await passTime(plant.id, 10 * SECOND);
      await sendTelemetry(link, gateway, { gridPowerKw: index, 'BESS-1/powerKw': 1 });
    }
    const rowsWritten = (await site.diagnostics(gateway.id)).rowsWritten - before;
    expect(rowsWritten / 360).toBeLessThanOrEqual(1.1);
  });

  it('journal blocks are ordered by receive time, and close after five minutes [rule 9]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    for (const minute of [0, 4, 5, 9, 12]) {
      setClock(START_MS + minute * MINUTE);
      await sendTelemetry(link, gateway, { gridPowerKw: minute });
    }
    const minuteOf = (column: string) => `((${column} - ${START_MS}) / ${MINUTE})`;
    const span = `${minuteOf('opened_at_ms')} || '-' || ${minuteOf('last_at_ms')}`;
    const spans = await columnOf(plant.id, `SELECT ${span} FROM journal_block ORDER BY id`);
    expect(spans).toEqual(['0-4', '5-9', '12-12']);
  });
});

describe('the latest values after a wake', () => {
  it('are the same, from the open block and from closed ones [C-4.1]', async () => {
    const { plant, link, site, gateway } = await setScene({ gateway: 'connected' });
    const first = rawTelemetry(gateway, { data: '{"BESS-1/socPercent":61,"gridPowerKw":1}' });
    await publishAll(link, [first, ...largeMessages(plant), ...largeMessages(plant)]);
    setClock(START_MS + 30 * MINUTE);
    await sendTelemetry(link, gateway, { gridPowerKw: 2 });
    const expected = await site.readLatestTelemetry(plant.id);
    expect(expected.payload).toMatchObject({ gridPowerKw: 2, socPercent: 61 });
    await evictSite(plant.id);
    expect(await site.readLatestTelemetry(plant.id)).toEqual(expected);
  });

  it('include those of a batch during which a block was closed [rule 3]', async () => {
    const { plant, link, site, gateway } = await setScene({ gateway: 'connected' });
    const [first, last] = ['{"BESS-1/socPercent":40}', '{"gridPowerKw":4}'];
    const [opening, closing] = [
      rawTelemetry(gateway, { data: first }),
      rawTelemetry(gateway, { data: last }),
    ];
    await publishAll(link, [opening, ...largeMessages(plant), closing]);
    expect(await blocks(plant.id)).toBeGreaterThan(1);
    await evictSite(plant.id);
    const { payload } = await site.readLatestTelemetry(plant.id);
    expect(payload).toMatchObject({ gridPowerKw: 4, socPercent: 40 });
  });
});

describe('the message that opens a block', () => {
  it('is among the latest values after an eviction, even if the clock moves during its batch', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    // As on a slow machine: the clock advances with each read.
    let readMs = Date.now();
    vi.spyOn(Date, 'now').mockImplementation(() => readMs++);
    await publishAll(link, largeMessages(plant));
    await publish(link, rawTelemetry(gateway, { ts: readMs, data: '{"gridPowerKw":1}' }));
    readMs += 5 * MINUTE;
    await publish(link, rawTelemetry(gateway, { ts: readMs, data: '{"gridPowerKw":2}' }));
    expect(await gridPowerKw(plant)).toBe(2);
    await evictSite(plant.id);
    expect(await gridPowerKw(plant)).toBe(2);
  });
});
