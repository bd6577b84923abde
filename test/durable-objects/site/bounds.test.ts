/** The storage that a hostile device can use in a site is bounded, whatever its frames contain [rule 9]. */
import type { DeviceTestLink } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  connectTo,
  type DeviceCredential,
  droppedOf,
  manySignals,
  publish,
  publishAll,
  rawTelemetry,
} from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { evictSite, factOf, numberOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createLinked, siteOf } from '#workerd/world.ts';
import { MAX_BATCH_FRAMES, MAX_MESSAGE_CHARS } from '../../../protocol/link/batch.ts';
import type { DeviceLinkDown } from '../../../protocol/link/device.ts';

const MAX_ROW_BYTES = 1024 * 1024;
const LONGEST_ROW = {
  journal: 'SELECT max(length(CAST(data AS BLOB))) FROM journal_block',
  facts: 'SELECT max(length(CAST(value AS BLOB))) FROM fact',
};

/** 1 000 new signal names in about 100 KB. */
function inventedSignals(round: number): string {
  return manySignals(1_000, `${'x'.repeat(80)}-${round}-`);
}

/** Sends one message of over a megabyte, and returns the kind of its answer; a closed link answers nothing. */
async function sendHuge(link: DeviceTestLink, gateway: DeviceCredential): Promise<string> {
  const payload = rawTelemetry(gateway, { data: `{"gridPowerKw":1.${'0'.repeat(MAX_ROW_BYTES)}}` });
  link.send({ kind: 'publish', seq: 70_000, topic: 'telemetry', payload });
  const isAnswer = (frame: DeviceLinkDown) =>
    frame.kind === 'refused' ? frame.seq === 70_000 : frame.kind === 'stored' && frame.seqs.includes(70_000);
  const closed = link.untilClosed().then(({ code }) => `closed ${code}`);
  return await Promise.race([link.next(isAnswer).then(({ kind }) => kind), closed]);
}

describe('one link message', () => {
  it('a link message with 256 frames is stored completely [rule 9]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const data = '{"gridPowerKw":1}';
    const messages = Array.from({ length: MAX_BATCH_FRAMES }, () => rawTelemetry(gateway, { data }));
    expect(await publishAll(link, messages)).toEqual(Array(MAX_BATCH_FRAMES).fill(true));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
  });

  it('the Site closes the link after a message longer than any that a bridge sends, and stores nothing of it [rule 1]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const payload = rawTelemetry(gateway, { data: '{"gridPowerKw":1}' });
    const tooLong = payload + ' '.repeat(MAX_MESSAGE_CHARS);
    link.send({ kind: 'publish', seq: 1, topic: 'telemetry', payload: tooLong });
    expect(await link.untilClosed()).toMatchObject({ code: 4400 });
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBe(0);
  });
});

describe('one telemetry message', () => {
  it.each([
    ['1 000 signals is stored', 1_000, 1, 1],
    ['1 001 signals is dropped as MALFORMED', 1_001, 1, 0],
    ['a name of 128 characters is stored', 1, 128, 1],
    ['a name of 129 characters is dropped as MALFORMED', 1, 129, 0],
  ])('a telemetry message with %s [C-3.13]', async (_what, count, nameLength, storedBlocks) => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const names = Array.from({ length: count }, (_none, index) => String(index).padStart(nameLength, 'n'));
    const data = JSON.stringify(Object.fromEntries(names.map((name) => [name, 1])));
    expect(await publish(link, rawTelemetry(gateway, { data }))).toBe(true);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBe(storedBlocks);
    expect(await droppedOf(plant.id, gateway.id)).toEqual(storedBlocks ? {} : { MALFORMED: 1 });
  });

  it('a telemetry message of over 1 MB creates no journal row of over 1 MB [rule 9]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":1}' }));
    await sendHuge(link, gateway);
    expect(await numberOf(plant.id, LONGEST_ROW.journal)).toBeGreaterThan(0);
    expect(await numberOf(plant.id, LONGEST_ROW.journal)).toBeLessThanOrEqual(MAX_ROW_BYTES);
  });

  it('a telemetry message that is too long for a row is rejected without closing the link [rule 3]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":1}' }));
    expect(await sendHuge(link, gateway)).toBe('refused');
    setClock(START_MS + MINUTE);
    expect(await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":2}' }))).toBe(true);
    expect(await gridPowerKw(plant)).toBe(2);
    expect(link.closed).toBeUndefined();
  });
});

describe('names of signals', () => {
  it('messages with unprintable signal names are dropped and counted, and the next valid message is stored [C-3.13]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    for (let round = 0; round < 4; round++) {
      const data = manySignals(1_000, `\u0001${'\u0000'.repeat(20)}${round}-`);
      expect(await publish(link, rawTelemetry(gateway, { data }))).toBe(true);
    }
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ MALFORMED: 4 });
    expect(await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":7}' }))).toBe(true);
    expect(await gridPowerKw(plant)).toBe(7);
  });

  it('the site keeps the 500 unknown signal names with the newest values, and all known names [C-3.13]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":7,"BESS-1/socPercent":50}' }));
    for (let round = 0; round < 5; round++) {
      setClock(START_MS + (round + 1) * 10 * SECOND);
      await publish(link, rawTelemetry(gateway, { data: inventedSignals(round) }));
    }
    setClock(START_MS + 5 * MINUTE);
    await publish(link, rawTelemetry(gateway, { data: '{"fvePowerKw":3}' }));
    setClock(START_MS + 11 * MINUTE);
    await publish(link, rawTelemetry(gateway, { data: '{"brand-new":1}' }));
    for (const state of ['awake', 'woken']) {
      if (state === 'woken') await evictSite(plant.id);
      const { payload } = await siteOf(plant.id).readLatestTelemetry(plant.id);
      expect(payload, state).toMatchObject({ gridPowerKw: 7, fvePowerKw: 3, socPercent: 50 });
    }
    const snapshot = await factOf<{ samples: Record<string, unknown> }>(plant.id, 'snapshot');
    const invented = Object.keys(snapshot?.samples ?? {}).filter((name) => name.startsWith('xxx'));
    expect(invented).toHaveLength(500);
    expect(invented.every((name) => name.includes('-4-'))).toBe(true);
  });

  it('signals of a sub-device are accepted only from the gateway and from the device linked to it [C-3.13]', async () => {
    const { organization, plant, gateway } = await setScene({ plant: true });
    const linked = await createLinked(organization, plant.id, { externalId: 'METER-2', assetType: 'METER' });
    const link = await connectTo(plant.id, gateway.id);
    const other = await connectTo(plant.id, linked.id);
    await publish(link, rawTelemetry(gateway, { data: '{"FVE-1/powerKw":5}' }));
    await publish(other, rawTelemetry(linked, { data: '{"FVE-1/powerKw":999,"METER-2/powerKw":4}' }));
    const { payload } = await siteOf(plant.id).readLatestTelemetry(plant.id);
    expect(payload.fvePowerKw).toBe(5);
    expect(payload.devices).toContainEqual({ deviceId: 'METER-2', assetType: 'METER', powerKw: 4 });
  });
});

describe('stored data over time', () => {
  it('the stored latest values stay under 1 MB, however many signal names a device invents [rule 9]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    for (let round = 0; round < 14; round++) {
      setClock(START_MS + round * 10 * SECOND);
      await publish(link, rawTelemetry(gateway, { data: inventedSignals(round) }));
    }
    expect(await numberOf(plant.id, LONGEST_ROW.facts)).toBeLessThanOrEqual(MAX_ROW_BYTES);
  });

  it('connection ids are deleted after their bridge proof is stale: with a dial a minute at most four are stored [rule 1]', async () => {
    const { plant } = await setScene({ gateway: 'connected' });
    for (let minute = 1; minute <= 10; minute++) {
      setClock(START_MS + minute * MINUTE);
      await connectTo(plant.id, plant.gateway.id);
    }
    expect(await numberOf(plant.id, 'SELECT count(*) FROM seen_connection')).toBeLessThanOrEqual(4);
  });

  it('journal blocks older than a week are deleted, and the latest values survive an eviction [C-4.5]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'connected' });
    const day = 24 * 60 * MINUTE;
    for (const at of [0, 1, 2, 6, 6.5, 8, 9]) {
      setClock(START_MS + at * day);
      await publish(link, rawTelemetry(gateway, { data: `{"gridPowerKw":${at}}` }));
    }
    await passTime(plant.id, 2 * MINUTE);
    const oldest = await numberOf(plant.id, 'SELECT min(opened_at_ms) FROM journal_block');
    // At day 9 only the blocks after day 2 are left.
    expect((oldest - START_MS) / day).toBe(6);
    await evictSite(plant.id);
    expect((await siteOf(plant.id).readLatestTelemetry(plant.id)).payload.gridPowerKw).toBe(9);
  });
});
