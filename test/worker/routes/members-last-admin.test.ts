/** An organization always has an ORG_ADMIN: the last one cannot leave, also in concurrent requests [C-1.2]. */
import { valuesFrom } from '#workerd/d1.ts';
import { auditRows } from '#workerd/door.ts';
import type { Person } from '#workerd/people.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';

const it = test.extend('roles', { auto: true }, ({ team }) => team.resetRoles());

type Way = [title: string, go: (by: Person, team: Team, of: Person) => Promise<Response>];

const WAYS: Way[] = [
  ['demoted as a member', (by, team, of) => by.patch(memberPath(team, of), { role: 'VIEWER' })],
  ['demoted as a user', (by, { id: org }, of) => by.patch(`/users/${of.id}`, { role: 'ADMIN' }, { org })],
  ['removed', (by, team, of) => by.delete(memberPath(team, of))],
];

function memberPath(team: Team, { id }: Person): string {
  return `/organizations/${team.id}/members/${id}`;
}

async function promote(team: Team, person: Person): Promise<void> {
  await team.orgAdmin.change(memberPath(team, person), { role: 'ORG_ADMIN' });
}

async function adminIds({ id }: Team): Promise<unknown[]> {
  const sql = `SELECT user_id FROM memberships WHERE organization_id = ? AND role = 'ORG_ADMIN' ORDER BY user_id`;
  return await valuesFrom(sql, id);
}

describe.each(WAYS)('an ORG_ADMIN who is to be %s', (_title, go) => {
  it('keeps the role, with 409 and no audit row, if there is no other one [C-1.2]', async ({ team }) => {
    const before = (await auditRows(team.id)).length;
    await expectError(await go(team.orgAdmin, team, team.orgAdmin), 409, 'CONFLICT');
    expect(await adminIds(team)).toEqual([team.orgAdmin.id]);
    expect((await auditRows(team.id)).length).toBe(before);
  });

  it('loses the role while another ORG_ADMIN keeps it [C-1.2]', async ({ team }) => {
    await promote(team, team.admin);
    expect((await go(team.admin, team, team.orgAdmin)).status).toBe(200);
    expect(await adminIds(team)).toEqual([team.admin.id]);
    await expectError(await go(team.admin, team, team.admin), 409, 'CONFLICT');
  });

  it('keeps the role as one of two who concurrently do this to each other [C-1.2]', async ({ team }) => {
    await promote(team, team.admin);
    await Promise.all([go(team.orgAdmin, team, team.admin), go(team.admin, team, team.orgAdmin)]);
    expect(await adminIds(team)).toHaveLength(1);
  });

  it('keeps the role, with 409, as one of four who do this to themselves at once [C-1.2]', async ({
    team,
  }) => {
    const people = [team.viewer, team.operator, team.admin];
    for (const person of people) await promote(team, person);
    const options = { org: team.id };
    const answers = await Promise.all([...people, team.orgAdmin].map((person) => go(person, team, person)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 409]);
    const [last = '', ...others] = await adminIds(team);
    expect(others).toEqual([]);
    const one = [...people, team.orgAdmin].find(({ id }) => id === last);
    expect((await one?.call('/users', options))?.status).toBe(200);
  });

  it('keeps the role, with 409, even if another member is ORG_ADMIN of another organization [C-1.2]', async ({
    team,
    other,
  }) => {
    expect(await other.orgAdmin.read(`/organizations/${other.id}`)).toMatchObject({ role: 'ORG_ADMIN' });
    await other.join(team.admin, 'ORG_ADMIN');
    await expectError(await go(team.orgAdmin, team, team.orgAdmin), 409, 'CONFLICT');
    expect(await adminIds(team)).toEqual([team.orgAdmin.id]);
  });
});
