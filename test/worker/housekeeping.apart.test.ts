/** What the clock clears away each minute, and what it leaves [C-1.1], [C-1.4], [C-8.4]. */
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { keepHouse } from '../../worker/lifecycle/housekeeping.ts';
import { countAttempt } from '../../worker/registry/login-failures.ts';
import { PASSWORD, Person } from '../support/workerd/people.ts';
import { changeRegistry, changeSettings } from '../support/workerd/registry-changes.ts';
import { RegistryRows } from '../support/workerd/registry-rows.ts';

const DAY_MS = 86_400_000;
const WINDOW_MS = 15 * 60_000;
const SESSION_MS = 30 * DAY_MS;
/** A round takes so many of them. */
const EVENTS_PER_ROUND = 90;

const NOW_MS = Date.UTC(2026, 5, 1);
let rows: RegistryRows;

beforeEach(async () => {
  rows = await RegistryRows.create();
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Of those that a test has added. */
async function eventsOf(organizationId: string): Promise<string[]> {
  const { results } = await env.DB.prepare(
    `SELECT event FROM audit_events WHERE organization_id = ? AND event IN ('kept', 'old') ORDER BY event`,
  )
    .bind(organizationId)
    .all<{ event: string }>();
  return results.map(({ event }) => event);
}

async function keepFor(days: number): Promise<void> {
  await changeRegistry(rows.organization, changeSettings({ auditRetentionDays: days }));
}

async function addEvent(event: string, ageMs: number): Promise<void> {
  const createdAtMs = NOW_MS - ageMs;
  await rows.insert('audit_events', {
    organization_id: rows.organization.id,
    event,
    created_at_ms: createdAtMs,
  });
}

describe('audit events', () => {
  it('are kept for as many days as the organization says [C-1.1]', async () => {
    await keepFor(30);
    await addEvent('kept', 30 * DAY_MS);
    await addEvent('old', 30 * DAY_MS + 1);
    await keepHouse(env, NOW_MS);
    expect(await eventsOf(rows.organization.id)).toEqual(['kept']);
  });

  it('are kept for 400 days where it says nothing [C-1.1]', async () => {
    await addEvent('kept', 400 * DAY_MS);
    await addEvent('old', 400 * DAY_MS + 1);
    await keepHouse(env, NOW_MS);
    expect(await eventsOf(rows.organization.id)).toEqual(['kept']);
  });

  it('go in rounds, however many there are (rule 9)', async () => {
    for (let count = 0; count <= EVENTS_PER_ROUND; count++) await addEvent('old', 500 * DAY_MS);
    await keepHouse(env, NOW_MS);
    expect(await eventsOf(rows.organization.id)).toHaveLength(1);
    await keepHouse(env, NOW_MS);
    expect(await eventsOf(rows.organization.id)).toEqual([]);
  });
});

describe('alerts', () => {
  async function addAlert(status: string, resolvedAgeMs: number | null): Promise<string> {
    const resolvedAtMs = resolvedAgeMs === null ? null : NOW_MS - resolvedAgeMs;
    const { id } = await rows.insert('alerts', { status, resolved_at_ms: resolvedAtMs });
    return String(id);
  }

  async function alertsLeft(): Promise<string[]> {
    const { results } = await env.DB.prepare('SELECT id FROM alerts WHERE organization_id = ? ORDER BY rowid')
      .bind(rows.organization.id)
      .all<{ id: string }>();
    return results.map(({ id }) => id);
  }

  it.each([
    ['as many days as the organization keeps audit events', 30],
    ['400 days where it says nothing', undefined],
  ])('that are resolved are kept for %s, and open ones for good [C-9]', async (_what, days) => {
    if (days !== undefined) await keepFor(days);
    const keptMs = (days ?? 400) * DAY_MS;
    const kept = [
      await addAlert('RESOLVED', keptMs),
      await addAlert('ACTIVE', null),
      await addAlert('ACKNOWLEDGED', null),
    ];
    await addAlert('RESOLVED', keptMs + 1);
    await keepHouse(env, NOW_MS);
    expect(await alertsLeft()).toEqual(kept);
  });

  it('go in rounds, however many there are (rule 9)', async () => {
    for (let count = 0; count <= EVENTS_PER_ROUND; count++) await addAlert('RESOLVED', 500 * DAY_MS);
    await keepHouse(env, NOW_MS);
    expect(await alertsLeft()).toHaveLength(1);
    await keepHouse(env, NOW_MS);
    expect(await alertsLeft()).toEqual([]);
  });
});

describe('sessions and wrong logins', () => {
  async function count(table: 'sessions' | 'login_failures', column: string, value: string): Promise<number> {
    const found = await env.DB.prepare(`SELECT count(*) AS count FROM ${table} WHERE ${column} = ?`)
      .bind(value)
      .first<number>('count');
    return found ?? 0;
  }

  it('go when their time is over, and not before [C-1.4]', async () => {
    const loggedInMs = Date.now();
    const person = await Person.register();
    const sessions = () => count('sessions', 'user_id', person.id);
    await keepHouse(env, loggedInMs + SESSION_MS - 1);
    expect(await sessions()).toBe(1);
    await keepHouse(env, Date.now() + SESSION_MS + 1);
    expect(await sessions()).toBe(0);
  });

  it('of an e-mail that nobody has go with the window [C-1.4]', async () => {
    const email = `${crypto.randomUUID()}@example.org`;
    const failures = () => count('login_failures', 'email', email);
    await countAttempt(env.DB, email, NOW_MS);
    await keepHouse(env, NOW_MS + WINDOW_MS);
    expect(await failures()).toBe(1);
    await keepHouse(env, NOW_MS + WINDOW_MS + 1);
    expect(await failures()).toBe(0);
  });

  it('take nobody along who is logged in [C-1.4]', async () => {
    const person = await Person.register();
    await keepHouse(env, Date.now());
    expect((await person.call('/auth/me')).status).toBe(200);
    expect(await Person.logIn(person.email, PASSWORD)).toMatchObject({ id: person.id });
  });
});

it('goes on with the others when one of its duties fails (rule 10)', async () => {
  const said = vi.spyOn(console, 'error').mockReturnValue();
  await addEvent('old', 500 * DAY_MS);
  await env.DB.exec('ALTER TABLE registry_changes RENAME TO registry_changes_away');
  try {
    await keepHouse(env, NOW_MS);
  } finally {
    await env.DB.exec('ALTER TABLE registry_changes_away RENAME TO registry_changes');
  }
  expect(said).toHaveBeenCalledWith('housekeeping failed', {
    name: 'registry changes',
    reason: expect.any(String),
  });
  expect(await eventsOf(rows.organization.id)).toEqual([]);
});
