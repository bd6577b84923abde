/** What judging alert rules costs a Site, what of it outlives a wake, and what D1 has of it [C-9] (rules 3, 5, 9). */
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import {
  changeRule,
  commitRules,
  countTold,
  firedAt,
  newRuledSite,
  putRule,
  type RuleOptions,
  statusesAt,
} from '#workerd/alerts.ts';
import {
  HOUR,
  holdClock,
  MINUTE,
  passTime,
  passUntilTold,
  SECOND,
  START_MS,
  setClock,
} from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { newConnectedSite } from '#workerd/site-scenes.ts';
import type { RegistryWrite } from '../../../../durable-objects/registry/entries.ts';
import { writeRegistry } from '../../../../durable-objects/registry/status-lane.ts';

holdClock();

async function newTimedSite(options: RuleOptions = {}) {
  const scene = await newRuledSite(options);
  const { site, gateway, send } = scene;
  /** At that time after the start. */
  const sendAt = async (afterMs: number, gridPowerKw: number) => {
    setClock(START_MS + afterMs);
    await send(gridPowerKw);
  };
  const rowsWritten = async () => (await site.diagnostics(gateway.id)).rowsWritten;
  return { ...scene, sendAt, rowsWritten };
}

describe('judging a rule', () => {
  /** Four messages a minute, over and under the threshold in turns. Returns what they cost. */
  async function costOf(options: RuleOptions, minutes: number) {
    const { plant, send, sendAt, rowsWritten } = await newTimedSite(options);
    await send(5);
    await passTime(plant.id, 10 * SECOND);
    const told = await countTold(plant.id);
    const [before, fromMs] = [await rowsWritten(), Date.now() - START_MS];
    for (let message = 1; message <= minutes * 4; message++) {
      await sendAt(fromMs + message * 15 * SECOND, message % 2 === 0 ? 5 : 20);
    }
    await passUntilTold(plant.id);
    return { rows: (await rowsWritten()) - before, told: await told() };
  }

  it('costs no row, though what is remembered changes with each message [rule 9]', async () => {
    const without = await costOf({ enabled: false }, 20);
    const flapping = await costOf({ forSeconds: 3_600 }, 20);
    expect(flapping).toEqual({ rows: without.rows, told: 0 });
  });

  it('costs what is told of alerts beside, and that is bounded by the cooldown [rule 9]', async () => {
    const minutes = 60;
    const { rows, told } = await costOf({ cooldownSeconds: 60 }, minutes);
    expect(told).toBeGreaterThan(minutes / 2);
    expect(told).toBeLessThanOrEqual(2 * minutes);
    // Each comes into the outbox and leaves it; a message is a row, and a block now and then another.
    expect(rows).toBeLessThanOrEqual(1.2 * 4 * minutes + 6 * told);
  });

  it('tells of an open alert whose condition comes and goes once a minute, and how often in the end [rule 9]', async () => {
    const { plant, sendAt, fired } = await newTimedSite({ forSeconds: 60 });
    const told = await countTold(plant.id);
    for (let second = 0; second <= 60; second += 20) await sendAt(second * SECOND, 20);
    for (let message = 1; message <= 180; message++) {
      await sendAt(MINUTE + message * 20 * SECOND, message % 2 === 0 ? 20 : 5);
    }
    expect(await told()).toBeGreaterThan(30);
    expect(await told()).toBeLessThanOrEqual(61);
    await sendAt(HOUR + 2 * MINUTE, 5);
    await sendAt(HOUR + 3 * MINUTE, 5);
    expect(await fired()).toMatchObject([{ status: 'RESOLVED', count: 91 }]);
  });
});

describe('what is remembered of a rule', () => {
  it('outlives an eviction between each message, and the blocks that open meanwhile [rule 3]', async () => {
    const { plant, sendAt } = await newTimedSite({ forSeconds: 720, cooldownSeconds: 300 });
    const at = async (minute: number, value: number) => {
      await sendAt(minute * MINUTE, value);
      const statuses = await statusesAt(plant.id);
      await evictSite(plant.id);
      return statuses;
    };
    for (let minute = 0; minute < 12; minute++) expect(await at(minute, 20)).toEqual([]);
    expect(await at(12, 20)).toEqual(['ACTIVE']);
    for (let minute = 13; minute < 25; minute++) expect(await at(minute, 5)).toEqual(['ACTIVE']);
    expect(await at(25, 5)).toEqual(['RESOLVED']);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBeGreaterThan(4);
    for (let minute = 26; minute < 38; minute++) expect(await at(minute, 20)).toEqual(['RESOLVED']);
    expect(await at(38, 20)).toEqual(['RESOLVED', 'ACTIVE']);
  });

  it('is the cooldown, too: none begins before it is over, evicted or not [C-9]', async () => {
    const { plant, sendAt } = await newTimedSite();
    await sendAt(0, 20);
    await sendAt(SECOND, 5);
    await evictSite(plant.id);
    await sendAt(5 * MINUTE + 999, 20);
    expect(await statusesAt(plant.id)).toEqual(['RESOLVED']);
    await evictSite(plant.id);
    await sendAt(5 * MINUTE + 10 * SECOND, 20);
    expect(await statusesAt(plant.id)).toEqual(['RESOLVED', 'ACTIVE']);
  });

  it('ends an alert by the agenda of a site that was evicted, with nobody there [rule 10]', async () => {
    const { plant, send, fired } = await newTimedSite({ forSeconds: 60 });
    await send(20);
    await passTime(plant.id, MINUTE);
    await send(20);
    await passTime(plant.id, SECOND);
    const goneMs = Date.now();
    await send(5);
    await passTime(plant.id, 30 * SECOND);
    await evictSite(plant.id);
    await passTime(plant.id, 30 * SECOND);
    expect(await fired()).toMatchObject([{ status: 'RESOLVED', resolvedAtMs: goneMs + MINUTE }]);
  });

  it.each([
    ['before the rule was made', true, false],
    ['while it waits', false, true],
    ['both times', true, true],
  ])(
    'finds what is absent in a site that was evicted %s [C-9], [rule 10]',
    async (_when, before, meanwhile) => {
      const { organization, plant, link, gateway } = await newConnectedSite();
      await sendTelemetry(link, gateway, { gridPowerKw: 5 });
      await passTime(plant.id, HOUR);
      if (before) await evictSite(plant.id);
      await putRule(organization, [plant.id], { operator: 'ABSENT' });
      const madeMs = Date.now();
      await passTime(plant.id, MINUTE);
      if (meanwhile) await evictSite(plant.id);
      await passTime(plant.id, 4 * MINUTE - 1);
      expect(await firedAt(plant.id)).toEqual([]);
      await passTime(plant.id, madeMs + 5 * MINUTE - Date.now());
      expect(await firedAt(plant.id)).toMatchObject([{ type: 'ABSENT', firstSeenAtMs: madeMs }]);
    },
  );

  it('goes with a rule that is disabled while the site is evicted [C-9]', async () => {
    const { organization, plant, ruleId, send, fired } = await newTimedSite();
    await send(20);
    await passUntilTold(plant.id);
    await evictSite(plant.id);
    await commitRules(organization, [plant.id], changeRule(ruleId, { enabled: false }));
    expect(await fired()).toMatchObject([{ status: 'RESOLVED', resolvedBy: null }]);
    expect(await numberOf(plant.id, 'SELECT length(alerts) FROM journal_block')).toBe(0);
  });
});

describe('an alert that somebody resolved', () => {
  it('is over in its Site: no other begins before its cooldown, though the condition holds on [C-9]', async () => {
    const { plant, site, sendAt, fired } = await newTimedSite({ cooldownSeconds: 600 });
    await sendAt(0, 20);
    const [{ id } = { id: '' }] = await fired();
    const endedMs = Date.now() - START_MS;
    await site.endAlert(id);
    await site.endAlert(id);
    await evictSite(plant.id);
    await sendAt(endedMs + 10 * MINUTE - 1, 21);
    expect(await fired()).toHaveLength(1);
    await sendAt(endedMs + 10 * MINUTE + 10 * SECOND, 22);
    expect(await fired()).toMatchObject([{ id }, { status: 'ACTIVE', value: 22, count: 1 }]);
  });

  it('of no rule that the Site has open changes nothing there [C-9]', async () => {
    const { plant, site, send } = await newTimedSite();
    await send(20);
    await site.endAlert(crypto.randomUUID());
    await send(5);
    expect(await statusesAt(plant.id)).toEqual(['RESOLVED']);
  });
});

describe('what D1 is told', () => {
  it('is written once, though its answer is lost and it goes again [rule 5]', async () => {
    const { plant, send } = await newTimedSite();
    vi.spyOn(console, 'warn').mockReturnValue(undefined);
    const database = Object.getPrototypeOf(env.DB) as D1Database;
    const { batch } = database;
    let lost = 0;
    vi.spyOn(database, 'batch').mockImplementation(async function (this: D1Database, statements) {
      const answer = await batch.call(this, statements);
      const isOfAlerts = statements.some((one) =>
        /"alerts"/.test((one as unknown as { statement: string }).statement),
      );
      if (!isOfAlerts || lost >= 2) return answer as never;
      lost += 1;
      throw new Error('the answer is lost');
    });
    await send(20);
    await passTime(plant.id, 10 * SECOND);
    await send(5);
    expect(await statusesAt(plant.id)).toEqual(['RESOLVED']);
    expect(lost).toBe(2);
  });

  it('begins an alert once, whatever comes again, and leaves one that somebody resolved as it is [rule 5]', async () => {
    const { organization, plant, ruleId } = await newTimedSite();
    const id = crypto.randomUUID();
    const begun: RegistryWrite = {
      kind: 'alert-begun',
      entry: {
        ...{ id, organizationId: organization.id, ruleId, plantId: plant.id, deviceId: null },
        ...{ type: 'THRESHOLD', severity: 'INFO', message: 'm', value: 20, threshold: 10 },
        ...{ firstSeenAtMs: 1, lastSeenAtMs: 1, count: 1 },
      },
    };
    const again: RegistryWrite = { kind: 'alert', id, columns: { count: 2, lastSeenAtMs: 2, value: 30 } };
    await writeRegistry(env.DB, [begun, again, begun]);
    await writeRegistry(env.DB, [begun]);
    expect(await firedAt(plant.id)).toMatchObject([{ status: 'ACTIVE', count: 2, value: 30 }]);
    await env.DB.prepare(
      `UPDATE alerts SET status = 'RESOLVED', resolved_by = 'somebody', resolved_at_ms = 5, note = 'n' WHERE id = ?`,
    )
      .bind(id)
      .run();
    const resolved = await firedAt(plant.id);
    const ended: RegistryWrite = { kind: 'alert', id, columns: { status: 'RESOLVED', resolvedAtMs: 9 } };
    await writeRegistry(env.DB, [begun, again, ended]);
    expect(await firedAt(plant.id)).toEqual(resolved);
  });

  it('of an alert that was acknowledged leaves who did so [C-9]', async () => {
    const { plant, sendAt, fired } = await newTimedSite();
    await sendAt(0, 20);
    await fired();
    await env.DB.prepare(
      `UPDATE alerts SET status = 'ACKNOWLEDGED', acknowledged_by = 'somebody', acknowledged_at_ms = 5 WHERE plant_id = ?`,
    )
      .bind(plant.id)
      .run();
    await sendAt(MINUTE, 5);
    expect(await fired()).toMatchObject([
      { status: 'RESOLVED', acknowledgedBy: 'somebody', acknowledgedAtMs: 5, resolvedBy: null },
    ]);
  });
});
