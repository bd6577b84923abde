/** An organization always has an ORG_ADMIN: the last one stays, of two who go at once too [C-1.2]. */
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTeam, type Person, resetRoles, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

let team: Team;
let other: Team;

beforeAll(async () => {
  [team, other] = await Promise.all([createTeam(), createTeam()]);
});

beforeEach(async () => {
  await resetRoles(team);
});

type Way = [title: string, go: (by: Person, of: Person) => Promise<Response>];

const WAYS: Way[] = [
  ['demoted as a member', (by, of) => by.call(memberPath(of), { method: 'PATCH', body: { role: 'VIEWER' } })],
  [
    'demoted as a user',
    (by, of) => by.call(`/users/${of.id}`, { method: 'PATCH', body: { role: 'ADMIN' }, org: team.id }),
  ],
  ['put out', (by, of) => by.call(memberPath(of), { method: 'DELETE' })],
];

function memberPath({ id }: Person): string {
  return `/organizations/${team.id}/members/${id}`;
}

async function promote(person: Person): Promise<void> {
  await team.orgAdmin.read(memberPath(person), { method: 'PATCH', body: { role: 'ORG_ADMIN' } });
}

async function adminIds(): Promise<string[]> {
  const rows = await env.DB.prepare(
    `SELECT user_id FROM memberships WHERE organization_id = ? AND role = 'ORG_ADMIN' ORDER BY user_id`,
  )
    .bind(team.id)
    .all<{ user_id: string }>();
  return rows.results.map(({ user_id }) => user_id);
}

async function auditRows(): Promise<number> {
  const counted = env.DB.prepare('SELECT count(*) AS n FROM audit_events WHERE organization_id = ?').bind(
    team.id,
  );
  return (await counted.first<number>('n')) ?? 0;
}

describe.each(WAYS)('an ORG_ADMIN who is %s', (_title, go) => {
  it('stays with 409 CONFLICT as the last one, and leaves no audit row [C-1.2]', async () => {
    const before = await auditRows();
    await expectError(await go(team.orgAdmin, team.orgAdmin), 409, 'CONFLICT');
    expect(await adminIds()).toEqual([team.orgAdmin.id]);
    expect(await auditRows()).toBe(before);
  });

  it('goes where another stays, who is the last then [C-1.2]', async () => {
    await promote(team.admin);
    expect((await go(team.admin, team.orgAdmin)).status).toBe(200);
    expect(await adminIds()).toEqual([team.admin.id]);
    await expectError(await go(team.admin, team.admin), 409, 'CONFLICT');
  });

  it('at once with the only other, each by the other, leaves one of them [C-1.2]', async () => {
    await promote(team.admin);
    await Promise.all([go(team.orgAdmin, team.admin), go(team.admin, team.orgAdmin)]);
    expect(await adminIds()).toHaveLength(1);
  });

  it('at once with all the others, each by themselves, leaves one of them [C-1.2]', async () => {
    const people = [team.viewer, team.operator, team.admin];
    for (const person of people) await promote(person);
    const options = { org: team.id };
    const answers = await Promise.all([...people, team.orgAdmin].map((person) => go(person, person)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 409]);
    const [last = '', ...others] = await adminIds();
    expect(others).toEqual([]);
    const one = [...people, team.orgAdmin].find(({ id }) => id === last);
    expect((await one?.call('/users', options))?.status).toBe(200);
  });

  it('of another organization counts for nothing here [C-1.2]', async () => {
    expect(await other.orgAdmin.read(`/organizations/${other.id}`)).toMatchObject({ role: 'ORG_ADMIN' });
    const body = { email: team.admin.email, role: 'ORG_ADMIN' };
    await other.orgAdmin.call(`/organizations/${other.id}/members`, { method: 'POST', body });
    await expectError(await go(team.orgAdmin, team.orgAdmin), 409, 'CONFLICT');
    expect(await adminIds()).toEqual([team.orgAdmin.id]);
  });
});
