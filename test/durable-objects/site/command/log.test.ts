/** The command log: every submission once, newest first; the snapshot has the open commands. */
import { setScene } from '#workerd/scene.ts';
import { HOUR, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { nthCommand, sendAck } from '#workerd/site-devices.ts';
import { newestCommand, readCommands, readConfig } from '#workerd/site-reads.ts';
import { evictSite, numberOf, rowsOf } from '#workerd/site-rows.ts';
import { batch, batteryCommand, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { sha256Hex } from '../../../../durable-objects/secrets/hmac.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

describe('the command log', () => {
  it('is empty in a new site, with a total of 0 [spec: Command-log page]', async () => {
    const { plant } = await setScene({ plant: true });
    expect(await readCommands(plant.id)).toEqual({ items: [], total: 0 });
  });

  it('is paged newest first, within one millisecond too, with the overall total [C-4.3]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const sent: string[] = [];
    for (let round = 0; round < 3; round++) {
      setClock(START_MS + round * SECOND);
      const submissions = Array.from({ length: 40 }, (_none, index) =>
        submission('site-setpoint', powerSetpoint(index % 4 === 0 ? 101 : 1)),
      );
      sent.unshift(...submissions.map((one) => one.messageId).reverse());
      await partner.submit(...submissions);
    }
    await evictSite(plant.id);
    const pages = await Promise.all([1, 2, 3, 4].map((page) => readCommands(plant.id, page, 50)));
    expect(pages.map((page) => page.items.length)).toEqual([50, 50, 20, 0]);
    expect(pages.map((page) => page.total)).toEqual([120, 120, 120, 120]);
    expect(pages.flatMap((page) => page.items.map((row) => row.messageId))).toEqual(sent);
    const all = await readCommands(plant.id, 1, 500);
    expect(all.items.map((row) => row.messageId)).toEqual(sent);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM command')).toBe(all.total);
    expect((await readCommands(plant.id, 1_000_000, 500)).items).toEqual([]);
    const atSecond = await readCommands(plant.id, 2, 50, START_MS + SECOND);
    expect(atSecond.items.map((row) => row.messageId)).toEqual(sent.slice(90));
    expect(atSecond.total).toBe(80);
    expect((await readCommands(plant.id, 1, 50, START_MS)).items[0]?.messageId).toBe(sent[80]);
    expect(await readCommands(plant.id, 1, 50, START_MS - 1)).toEqual({ items: [], total: 0 });
    expect((await readCommands(plant.id, 1, 500, START_MS + HOUR)).items).toHaveLength(120);
  });

  it('a log row has the fields of its command and omits those without a value [C-4.3]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const validUntil = formatInstant(START_MS + HOUR);
    const payload = powerSetpoint(5, { direction: 'EXPORT', validUntil, priority: 'NORMAL' });
    const one = submission('site-setpoint', payload, { correlationId: 'corr-1', source: 'trader' });
    await partner.submit(one);
    const row = await newestCommand(plant.id);
    expect(row).toEqual({
      id: row.id,
      messageId: one.messageId,
      correlationId: 'corr-1',
      siteId: plant.id,
      commandType: 'SITE_SETPOINT',
      routingKey: 'acme.command.site-setpoint',
      status: 'PENDING',
      priority: 'NORMAL',
      target: 'SITE',
      payload,
      source: 'trader',
      keyPrefix: 'sw_test',
      validFrom: payload.validFrom,
      validUntil,
      targetValueKw: -5,
      createdAt: formatInstant(START_MS),
      decision: { stage: 'plan', facts: expect.objectContaining({ level: 'NORMAL', isOnTop: true }) },
      ackedAt: formatInstant(START_MS),
    });
    expect(row.id).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('a log row records the reason of an emergency [spec: Command payloads]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const reason = '😀'.repeat(500);
    await partner.submit(submission('emergency', { type: 'HOLD', reason }));
    expect((await newestCommand(plant.id)).payload).toEqual({ type: 'HOLD', reason });
  });

  it('the configuration snapshot lists the newest 100 open commands, and none that has ended [spec: Limits]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    await partner.submit(
      ...Array.from({ length: 103 }, () => submission('device', batch(batteryCommand(1)))),
    );
    await partner.submit(submission('site-setpoint', powerSetpoint(101)));
    const before = await readConfig(plant.id);
    expect(before.pendingCommands).toHaveLength(100);
    const newest = (await readCommands(plant.id, 1, 101)).items.slice(1);
    expect(before.pendingCommands).toEqual(newest);

    const { cmdId } = await nthCommand(link, 103);
    await sendAck(link, plant.gateway, cmdId, 'FAILED');
    const ended = (await readConfig(plant.id)).pendingCommands.map((row) => row.messageId);
    expect(ended).not.toContain(newest[0]?.messageId);
    expect(ended).toHaveLength(100);
  });
});

describe('an oversized payload', () => {
  const huge = `{"type":"POWER","junk":"${'č'.repeat(100_000)}"}`;

  it('the log stores the beginning, length and digest of an oversized payload, and a re-send of it is recognized [C-7.3]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const one = submission('site-setpoint', {}, { payloadText: huge });
    const first = await partner.acknowledge(one);
    expect(first).toMatchObject({ status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD' });
    expect((await newestCommand(plant.id)).payload).toEqual({
      truncated: huge.slice(0, 1_024),
      characters: huge.length,
      sha256: sha256Hex(huge),
    });
    expect(await numberOf(plant.id, 'SELECT max(length(CAST(payload AS BLOB))) FROM command')).toBeLessThan(
      4_096,
    );
    await evictSite(plant.id);
    expect(await partner.acknowledge(one)).toEqual(first);
    const another = { ...one, payloadText: huge.replace('junk', 'jank') };
    expect(await partner.acknowledge(another)).toMatchObject({ message: 'messageId reused' });
    expect(await numberOf(plant.id, 'SELECT count(*) FROM command')).toBe(2);
  });

  it('a log page truncates deeply nested payloads, and large ones once the page is too long [spec: Command-log page]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(...Array.from({ length: 30 }, () => submission('mode', { mode: 'STANDARD' })));
    // Rows as an older version could write them: 30 times 256 KiB, and one that nests ten thousand levels.
    const filler = `'{"a":"' || replace(hex(zeroblob(131000)), '0', 'x') || '"}'`;
    await rowsOf(plant.id, `UPDATE command SET payload = ${filler}`);
    const deep = `'{"a":${'['.repeat(10_000)}${']'.repeat(10_000)}}'`;
    await rowsOf(plant.id, `UPDATE command SET payload = ${deep} WHERE sequence = 30`);
    const { items, total } = await readCommands(plant.id, 1, 500);
    expect([items.length, total]).toEqual([30, 30]);
    expect(items[0]?.payload).toMatchObject({
      characters: 20_006,
      truncated: expect.stringContaining('[[['),
    });
    expect(items[1]?.payload).toMatchObject({ a: expect.stringMatching(/^x{262000}$/) });
    expect(items[29]?.payload).toMatchObject({
      characters: 262_008,
      truncated: expect.stringMatching(/^.{1024}$/),
    });
    expect(JSON.stringify(items).length).toBeLessThan(5 * 1024 * 1024);
    expect((await readConfig(plant.id)).pendingCommands).toHaveLength(30);
  });
});
