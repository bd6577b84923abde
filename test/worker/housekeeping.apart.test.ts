/** What housekeeping deletes each minute, and what it keeps [C-1.1], [C-1.4], [C-8.4]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { countOf, runSql, valueFrom, valuesFrom } from '#workerd/d1.ts';
import { PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import { changeRegistry, changeSettings } from '#workerd/registry-changes.ts';
import { RegistryRows } from '#workerd/registry-rows.ts';
import { describe, expect, test } from '#workerd/worker-test.ts';
import { dropOldAuditEvents } from '../../registry/audit.ts';
import { countAttempt } from '../../registry/login-failures.ts';
import { keepHouse } from '../../worker/lifecycle/housekeeping.ts';

const DAY_MS = 86_400_000;
const WINDOW_MS = 15 * 60_000;
const SESSION_MS = 30 * DAY_MS;
/** How many rows of a kind one round deletes at most. */
const ROWS_PER_ROUND = 5_000;

const NOW_MS = Date.UTC(2026, 5, 1);

/** `ids` lists what is left of a table for the organization: the events' names, the alerts' ids. */
class House {
  readonly rows: RegistryRows;

  constructor(rows: RegistryRows) {
    this.rows = rows;
  }

  async keepFor(days: number): Promise<void> {
    await changeRegistry(this.rows.organization, changeSettings({ auditRetentionDays: days }));
  }

  async addEvent(event: string, ageMs: number): Promise<void> {
    await this.rows.insert('audit_events', {
      organization_id: this.rows.organization.id,
      event,
      created_at_ms: NOW_MS - ageMs,
    });
  }

  /** Many equal events in one statement. */
  async addEvents(count: number, ageMs: number): Promise<void> {
    await runSql(
      `INSERT INTO audit_events (id, organization_id, event, actor, outcome, created_at_ms)
       SELECT 'old-' || key, ?, 'old', 'k', 'SUCCESS', ? FROM json_each(?)`,
      this.rows.organization.id,
      NOW_MS - ageMs,
      JSON.stringify(new Array(count).fill(0)),
    );
  }

  async addAlert(status: string, resolvedAgeMs: number | null): Promise<string> {
    const resolvedAtMs = resolvedAgeMs === null ? null : NOW_MS - resolvedAgeMs;
    return String((await this.rows.insert('alerts', { status, resolved_at_ms: resolvedAtMs })).id);
  }

  /** Many RESOLVED alerts in one statement. */
  async addAlerts(count: number, resolvedAgeMs: number): Promise<void> {
    await env.DB.prepare(
      `INSERT INTO alerts (id, organization_id, type, severity, status, message, first_seen_at_ms, last_seen_at_ms, count, resolved_at_ms)
       SELECT 'old-' || key, ?, 'THRESHOLD', 'INFO', 'RESOLVED', 'x', 1, 1, 1, ? FROM json_each(?)`,
    )
      .bind(this.rows.organization.id, NOW_MS - resolvedAgeMs, JSON.stringify(new Array(count).fill(0)))
      .run();
  }

  /** The events that the test added. */
  events(): Promise<unknown[]> {
    const sql = `SELECT event FROM audit_events WHERE event IN ('kept', 'old') AND organization_id = ?`;
    return valuesFrom(sql, this.rows.organization.id);
  }

  /** The organization's counter of audit events. */
  async auditCount(): Promise<number> {
    const { id } = this.rows.organization;
    return (await valueFrom<number>('SELECT audit_count FROM organizations WHERE id = ?', id)) ?? 0;
  }

  alerts(): Promise<unknown[]> {
    const sql = 'SELECT id FROM alerts WHERE organization_id = ? ORDER BY rowid';
    return valuesFrom(sql, this.rows.organization.id);
  }
}

const it = test.extend('house', async () => new House(await RegistryRows.create()));

describe('audit events', () => {
  it('are kept for auditRetentionDays of their organization [C-1.1]', async ({ house }) => {
    await house.keepFor(30);
    await house.addEvent('kept', 30 * DAY_MS);
    await house.addEvent('old', 30 * DAY_MS + 1);
    await keepHouse(env, NOW_MS);
    expect(await house.events()).toEqual(['kept']);
  });

  it('are kept for 400 days where the organization sets nothing [C-1.1]', async ({ house }) => {
    await house.addEvent('kept', 400 * DAY_MS);
    await house.addEvent('old', 400 * DAY_MS + 1);
    await keepHouse(env, NOW_MS);
    expect(await house.events()).toEqual(['kept']);
  });

  it('are all deleted in one round if they are too old, even 10 001 of them (rule 9)', async ({ house }) => {
    await house.addEvents(2 * ROWS_PER_ROUND + 1, 500 * DAY_MS);
    await keepHouse(env, NOW_MS);
    expect(await house.events()).toEqual([]);
  });

  it('are kept for 400 days if they belong to no organization [C-14.3]', async ({ house }) => {
    const ages = { kept: 400 * DAY_MS, old: 400 * DAY_MS + 1 };
    for (const [event, ageMs] of Object.entries(ages))
      await house.rows.insert('audit_events', {
        ...{ organization_id: null, actor: house.rows.organization.id },
        ...{ event, created_at_ms: NOW_MS - ageMs },
      });
    await keepHouse(env, NOW_MS);
    const left = 'SELECT event FROM audit_events WHERE actor = ?';
    expect(await valuesFrom(left, house.rows.organization.id)).toEqual(['kept']);
  });

  it('over the limit are deleted, the oldest first, and audit_count shows how many are left [C-14.3]', async ({
    house,
  }) => {
    const other = new House(await RegistryRows.create());
    for (let age = 1; age <= 23; age++) await house.addEvent(age <= 7 ? 'kept' : 'old', age * DAY_MS);
    await other.addEvent('kept', 23 * DAY_MS);
    const before = await house.auditCount();
    await dropOldAuditEvents(env.DB, NOW_MS, { perStatement: 5, kept: before - 16 });
    expect(await house.events()).toEqual(Array(7).fill('kept'));
    expect(await house.auditCount()).toBe(before - 16);
    expect(await other.events()).toEqual(['kept']);
  });
});

describe('alerts', () => {
  it.for([
    ['as many days as the organization keeps audit events', 30],
    ['400 days where the organization sets nothing', undefined],
  ] as const)(
    'are kept for %s if they are RESOLVED; ACTIVE and ACKNOWLEDGED ones are kept at any age [C-9]',
    async ([_what, days], { house }) => {
      if (days !== undefined) await house.keepFor(days);
      const retentionMs = (days ?? 400) * DAY_MS;
      const expected = [
        await house.addAlert('RESOLVED', retentionMs),
        await house.addAlert('ACTIVE', null),
        await house.addAlert('ACKNOWLEDGED', null),
      ];
      await house.addAlert('RESOLVED', retentionMs + 1);
      await keepHouse(env, NOW_MS);
      expect(await house.alerts()).toEqual(expected);
    },
  );

  it('are deleted at most 5 000 in a round if they were RESOLVED too long ago, the rest in the next one (rule 9)', async ({
    house,
  }) => {
    await house.addAlerts(ROWS_PER_ROUND + 1, 500 * DAY_MS);
    await keepHouse(env, NOW_MS);
    expect(await house.alerts()).toHaveLength(1);
    await keepHouse(env, NOW_MS);
    expect(await house.alerts()).toEqual([]);
  });
});

describe('sessions and wrong logins', () => {
  it('a session is deleted when it has expired, and not before [C-1.4]', async () => {
    const loggedInMs = Date.now();
    const person = await Person.register();
    const sessions = () => countOf('sessions', 'user_id = ?', person.id);
    await keepHouse(env, loggedInMs + SESSION_MS - 1);
    expect(await sessions()).toBe(1);
    await keepHouse(env, Date.now() + SESSION_MS + 1);
    expect(await sessions()).toBe(0);
  });

  it('failed logins of an unknown e-mail are deleted after 15 minutes, and not before [C-1.4]', async () => {
    const email = uniqueEmail();
    const failures = () => countOf('login_failures', 'email = ?', email);
    await countAttempt(env.DB, { email, network: '192.0.2.0' }, NOW_MS);
    await keepHouse(env, NOW_MS + WINDOW_MS);
    // Of the network, and of all networks.
    expect(await failures()).toBe(2);
    await keepHouse(env, NOW_MS + WINDOW_MS + 1);
    expect(await failures()).toBe(0);
  });

  it('housekeeping ends no live session, and its user can still log in [C-1.4]', async ({ person }) => {
    await keepHouse(env, Date.now());
    expect((await person.call('/auth/me')).status).toBe(200);
    expect(await Person.logIn(person.email, PASSWORD)).toMatchObject({ id: person.id });
  });
});

it('when one task of housekeeping fails, housekeeping logs the failure and runs the other tasks (rule 10)', async ({
  house,
}) => {
  const logged = vi.spyOn(console, 'error').mockReturnValue();
  await house.addEvent('old', 500 * DAY_MS);
  await env.DB.exec('ALTER TABLE registry_changes RENAME TO registry_changes_away');
  try {
    await keepHouse(env, NOW_MS);
  } finally {
    await env.DB.exec('ALTER TABLE registry_changes_away RENAME TO registry_changes');
  }
  expect(logged).toHaveBeenCalledWith('housekeeping task failed, the next round will retry in a minute', {
    name: 'registry changes',
    reason: expect.any(String),
  });
  expect(await house.events()).toEqual([]);
});
