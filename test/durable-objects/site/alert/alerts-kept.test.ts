/** Open alerts over time: their cost, their stored state, their rows in D1, and their end by a change [C-9]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import {
  changeAlerts,
  changeRule,
  commitRules,
  countReports,
  deleteRule,
  firedAt,
  newRuledSite,
  putRule,
  type RuleOptions,
  statusesAt,
} from '#workerd/alerts.ts';
import { removePlant, type Step } from '#workerd/registry-changes.ts';
import { HOUR, MINUTE, passTime, passUntilSent, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import type { RegistryWrite } from '../../../../registry/entries.ts';
import { writeRegistry } from '../../../../registry/writes.ts';

async function newTimedSite(options: RuleOptions = {}) {
  const scene = await newRuledSite(options);
  const { site, gateway, send } = scene;
  /** Sends a reading at the given time after the start. */
  const sendAt = async (afterMs: number, gridPowerKw: number) => {
    setClock(START_MS + afterMs);
    await send(gridPowerKw);
  };
  const rowsWritten = async () => (await site.diagnostics(gateway.id)).rowsWritten;
  return { ...scene, sendAt, rowsWritten };
}

describe('the cost of evaluating a rule', () => {
  /**
   * Sends four messages a minute, alternately under and over the threshold. Returns the rows and the registry
   * writes.
   */
  async function costOf(options: RuleOptions, minutes: number) {
    const { plant, send, sendAt, rowsWritten } = await newTimedSite(options);
    await send(5);
    await passTime(plant.id, 10 * SECOND);
    const reports = await countReports(plant.id);
    const [before, fromMs] = [await rowsWritten(), Date.now() - START_MS];
    for (let message = 1; message <= minutes * 4; message++) {
      await sendAt(fromMs + message * 15 * SECOND, message % 2 === 0 ? 5 : 20);
    }
    await passUntilSent(plant.id);
    return { rows: (await rowsWritten()) - before, reports: await reports() };
  }

  it('evaluating a rule writes no row, although its state changes with each message [rule 9]', async () => {
    const without = await costOf({ enabled: false }, 20);
    const flapping = await costOf({ forSeconds: 3_600 }, 20);
    expect(flapping).toEqual({ rows: without.rows, reports: 0 });
  });

  it('an alert rule writes at most six rows for each registry write, and its cooldown limits these writes [rule 9]', async () => {
    const minutes = 60;
    const { rows, reports } = await costOf({ cooldownSeconds: 60 }, minutes);
    expect(reports).toBeGreaterThan(minutes / 2);
    expect(reports).toBeLessThanOrEqual(2 * minutes);
    // Each registry write is inserted into the outbox and deleted from it. A message writes one row, and sometimes
    // another one for a new block.
    expect(rows).toBeLessThanOrEqual(1.2 * 4 * minutes + 6 * reports);
  });

  it('an open alert whose condition flaps is written to D1 at most once a minute, and its final count is exact [rule 9]', async () => {
    const { plant, sendAt, fired } = await newTimedSite({ forSeconds: 60 });
    const reports = await countReports(plant.id);
    for (let second = 0; second <= 60; second += 20) await sendAt(second * SECOND, 20);
    for (let message = 1; message <= 180; message++) {
      await sendAt(MINUTE + message * 20 * SECOND, message % 2 === 0 ? 20 : 5);
    }
    expect(await reports()).toBeGreaterThan(30);
    expect(await reports()).toBeLessThanOrEqual(61);
    await sendAt(HOUR + 2 * MINUTE, 5);
    await sendAt(HOUR + 3 * MINUTE, 5);
    expect(await fired()).toMatchObject([{ status: 'RESOLVED', count: 91 }]);
  });
});

describe('the stored state of a rule', () => {
  it('the state of a rule survives an eviction after each message, also when a new journal block is opened [rule 3]', async () => {
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

  it('the cooldown of a rule survives an eviction: no alert begins before it is over [C-9]', async () => {
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

  it('an evicted site without traffic ends an alert by its agenda [rule 10]', async () => {
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

  it.for([
    ['before the rule was made', true, false],
    ['while it waits', false, true],
    ['both times', true, true],
  ])(
    'an ABSENT rule fires on time in a site that was evicted %s [C-9], [rule 10]',
    async ([_when, before, meanwhile], { connectedSite: { organization, plant, link, gateway } }) => {
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

  it('an alert is resolved when its rule is disabled while the site is evicted [C-9]', async () => {
    const { organization, plant, ruleId, send, fired } = await newTimedSite();
    await send(20);
    await passUntilSent(plant.id);
    await evictSite(plant.id);
    await commitRules(organization, [plant.id], changeRule(ruleId, { enabled: false }));
    expect(await fired()).toMatchObject([{ status: 'RESOLVED', resolvedBy: null }]);
    expect(await numberOf(plant.id, 'SELECT length(alerts) FROM journal_block')).toBe(0);
  });
});

describe('an alert that a user resolved', () => {
  it('its rule opens no other alert before the cooldown is over, although the condition is still true [C-9]', async () => {
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

  it('resolving an alert that the Site does not know has no effect [C-9]', async () => {
    const { plant, site, send } = await newTimedSite();
    await send(20);
    await site.endAlert(crypto.randomUUID());
    await send(5);
    expect(await statusesAt(plant.id)).toEqual(['RESOLVED']);
  });
});

describe('the alerts in D1', () => {
  it('an alert is one row in D1, even if the answer of D1 is lost and the Site repeats the write [rule 5]', async () => {
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

  it('repeated alert writes open an alert once and leave an alert that a user resolved unchanged [rule 5]', async () => {
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
    const byUser = `status = 'RESOLVED', resolved_by = 'a-user', resolved_at_ms = 5, note = 'n'`;
    await changeAlerts(plant.id, byUser);
    const resolved = await firedAt(plant.id);
    const ended: RegistryWrite = { kind: 'alert', id, columns: { status: 'RESOLVED', resolvedAtMs: 9 } };
    await writeRegistry(env.DB, [begun, again, ended]);
    expect(await firedAt(plant.id)).toEqual(resolved);
  });

  it('an acknowledged alert still shows who acknowledged it after it ends [C-9]', async () => {
    const { plant, sendAt, fired } = await newTimedSite();
    await sendAt(0, 20);
    await fired();
    const byUser = `status = 'ACKNOWLEDGED', acknowledged_by = 'a-user', acknowledged_at_ms = 5`;
    await changeAlerts(plant.id, byUser);
    await sendAt(MINUTE, 5);
    expect(await fired()).toMatchObject([
      { status: 'RESOLVED', acknowledgedBy: 'a-user', acknowledgedAtMs: 5, resolvedBy: null },
    ]);
  });
});

describe('an open alert whose rule or plant changes', () => {
  const ENDS: [string, (ruleId: string) => Step][] = [
    ['is disabled', (ruleId) => changeRule(ruleId, { enabled: false })],
    ['is deleted', deleteRule],
    ['is changed to another plant', (ruleId) => changeRule(ruleId, { plantId: crypto.randomUUID() })],
  ];

  it.for(ENDS)(
    'the platform resolves an open alert whose rule %s, and the rule opens no new alert [C-9]',
    async ([_what, end], { ruledSite: { ruleId, send, pass, change, fired } }) => {
      await send(20);
      expect(await fired()).toMatchObject([{ status: 'ACTIVE' }]);
      await change(end(ruleId));
      expect(await fired()).toMatchObject([{ status: 'RESOLVED', resolvedBy: null }]);
      await pass(10 * MINUTE);
      await send(21);
      expect(await fired()).toHaveLength(1);
    },
  );

  it('a rule that is disabled and enabled again opens a new alert, and its previous alert is resolved [C-9]', async () => {
    const { ruleId, send, change, fired } = await newRuledSite();
    await send(20);
    await change(changeRule(ruleId, { enabled: false }));
    await change(changeRule(ruleId, { enabled: true }));
    await send(20);
    expect((await fired()).map(({ status }) => status).sort()).toEqual(['ACTIVE', 'RESOLVED']);
  });

  it('an open alert is judged by the new threshold after its rule changes [C-9]', async () => {
    const { ruleId, plant, send, change, fired } = await newRuledSite();
    await send(20);
    await change(changeRule(ruleId, { threshold: 30 }));
    expect(await statusesAt(plant.id)).toEqual(['ACTIVE']);
    await send(20);
    expect(await fired()).toMatchObject([{ status: 'RESOLVED', threshold: 10, resolvedBy: null }]);
  });

  it('deleting a plant resolves its open alerts and keeps their rows [C-9]', async () => {
    const { organization, plant, send, change, fired } = await newRuledSite();
    await putRule(organization, [plant.id], { metric: 'gridPowerKw', operator: 'LT', threshold: 30 });
    await send(20);
    await change(removePlant(plant));
    const resolved = { organizationId: organization.id, status: 'RESOLVED', resolvedBy: null };
    expect(await fired()).toMatchObject([resolved, resolved]);
  });
});
