/** Members of an organization are added, changed and removed within the caller’s role [C-1.1], [C-1.2]. */
import { rowsFrom, runSql } from '#workerd/d1.ts';
import { Person } from '#workerd/people.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, expectSameError, INSTANT, test } from '#workerd/worker-test.ts';
import type { Role } from '../../../protocol/enums.ts';
import type { MemberRecord } from '../../../protocol/organization.ts';
import type { Page } from '../../../protocol/page.ts';

const ROLES: Role[] = ['VIEWER', 'OPERATOR', 'ADMIN', 'ORG_ADMIN'];

/** `stranger` is a member of nothing; requests are about members of `team`. */
const it = test
  .extend('stranger', { scope: 'file' }, () => Person.register('Stranger'))
  .extend('membersPath', ({ team }) => `/organizations/${team.id}/members`)
  .extend('change', ({ membersPath }) => (by: Person, of: { id: string }, role: unknown) => {
    return by.patch(`${membersPath}/${of.id}`, { role });
  })
  .extend('remove', ({ membersPath }) => (by: Person, of: { id: string }) => {
    return by.delete(`${membersPath}/${of.id}`);
  })
  .extend('roles', { auto: true }, ({ team }) => team.resetRoles());

async function rolesOf({ id }: Team): Promise<Record<string, Role>> {
  const sql = 'SELECT user_id AS id, role FROM memberships WHERE organization_id = ?';
  const rows = await rowsFrom<{ id: string; role: Role }>(sql, id);
  return Object.fromEntries(rows.map((row) => [row.id, row.role]));
}

describe('GET /organizations/:id/members', () => {
  it('every member sees all members with their roles, sorted by e-mail [C-1.1]', async ({
    team,
    membersPath,
  }) => {
    const people = team.members;
    const wanted = people.map(({ id, email }, index) => ({
      userId: id,
      email,
      name: 'Test Person',
      role: ROLES[index],
      createdAt: INSTANT,
    }));
    for (const person of people) {
      const page = await person.read<Page<MemberRecord>>(membersPath);
      expect(page.data).toEqual(wanted.sort((a, b) => (a.email < b.email ? -1 : 1)));
      expect(page.meta).toEqual({ page: 1, limit: 20, total: 4, totalPages: 1 });
    }
  });

  it('createdAt of a member is the time of the membership, not that of the account [C-1.1]', async ({
    team,
    membersPath,
  }) => {
    await runSql('UPDATE users SET created_at_ms = 1 WHERE id = ?', team.viewer.id);
    const { data } = await team.viewer.read<Page<MemberRecord>>(membersPath);
    const own = data.find(({ userId }) => userId === team.viewer.id);
    expect(Date.parse(own?.createdAt ?? '')).toBeGreaterThan(1);
  });

  it('members are listed in pages (spec: List endpoints)', async ({ team, membersPath }) => {
    const emails = [];
    for (const page of [1, 2, 3]) {
      const path = `${membersPath}?page=${page}&limit=3`;
      const { data, meta } = await team.viewer.read<Page<MemberRecord>>(path);
      expect(meta).toEqual({ page, limit: 3, total: 4, totalPages: 2 });
      emails.push(...data.map(({ email }) => email));
    }
    const people = team.members;
    expect(emails).toEqual(people.map(({ email }) => email).sort());
    await expectError(await team.viewer.call(`${membersPath}?limit=101`), 400, 'VALIDATION_ERROR');
  });
});

describe('a role', () => {
  it('only ADMIN and ORG_ADMIN can give a role, up to their own; others get 403 [C-1.2]', async ({
    team,
    stranger,
    change,
  }) => {
    await team.join(stranger, 'VIEWER');
    const givers: [Person, Role[]][] = [
      [team.viewer, []],
      [team.operator, []],
      [team.admin, ['VIEWER', 'OPERATOR', 'ADMIN']],
      [team.orgAdmin, ROLES],
    ];
    for (const [giver, allowed] of givers) {
      for (const role of ROLES) {
        const response = await change(giver, stranger, role);
        if (!allowed.includes(role)) await expectError(response, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
        else expect([role, response.status]).toEqual([role, 200]);
      }
    }
  });

  it('a VIEWER or OPERATOR who changes a role gets 403, and so does a member who changes a higher role [C-1.2]', async ({
    team,
    stranger,
    change,
    remove,
  }) => {
    await team.join(stranger, 'VIEWER');
    const before = await rolesOf(team);
    const refused: [Person, Person, Role][] = [
      [team.viewer, team.viewer, 'ADMIN'],
      [team.operator, stranger, 'VIEWER'],
      [team.admin, stranger, 'ORG_ADMIN'],
      [team.admin, team.admin, 'ORG_ADMIN'],
      [team.admin, team.orgAdmin, 'VIEWER'],
      [team.admin, team.orgAdmin, 'ORG_ADMIN'],
    ];
    for (const [by, of, role] of refused) {
      await expectError(await change(by, of, role), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    }
    await expectError(await remove(team.admin, team.orgAdmin), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    await expectError(await remove(team.operator, stranger), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    expect(await rolesOf(team)).toEqual(before);
    for (const role of ['ADMIN', 'OPERATOR', 'OPERATOR', 'VIEWER'] as const) {
      const response = await change(team.admin, stranger, role);
      expect([response.status, await response.json()]).toMatchObject([200, { userId: stranger.id, role }]);
      expect((await rolesOf(team))[stranger.id]).toBe(role);
    }
  });

  it('a changed role applies to the next request [C-1.2]', async ({ team, stranger, change }) => {
    await team.join(stranger, 'VIEWER');
    await change(team.orgAdmin, team.admin, 'VIEWER');
    await expectError(await change(team.admin, stranger, 'OPERATOR'), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    await change(team.orgAdmin, team.viewer, 'ADMIN');
    expect((await change(team.viewer, stranger, 'OPERATOR')).status).toBe(200);
  });

  it('other than the four gets 400 (bad input: REST)', async ({ team, change }) => {
    for (const role of ['SUPER_ADMIN', 'admin', '', null, 3, ['ADMIN'], undefined]) {
      await expectError(await change(team.orgAdmin, team.viewer, role), 400, 'VALIDATION_ERROR');
    }
  });

  it('each change and each removal is audited; a refused or repeated one is not [C-8.4]', async ({
    team,
    change,
    remove,
  }) => {
    const stranger = await Person.register('Stranger');
    await team.join(stranger, 'VIEWER');
    for (const role of ['ADMIN', 'ADMIN'] as const) await change(team.orgAdmin, stranger, role);
    await change(team.admin, team.orgAdmin, 'VIEWER');
    await remove(team.orgAdmin, stranger);
    const { id: actor } = team.orgAdmin;
    expect(await team.trailOf(stranger.id)).toEqual([
      ['member.role_changed', actor, 'USER', { from: 'VIEWER', to: 'ADMIN' }],
      ['member.removed', actor, 'USER', { role: 'ADMIN' }],
    ]);
    expect((await team.trailOf(actor)).map(([event]) => event)).not.toContain('member.role_changed');
  });
});

describe('changing or removing a member', () => {
  it('a removed member loses access and can be added again [C-1.2]', async ({ team, remove }) => {
    const answer = { userId: team.operator.id, deleted: true };
    expect(await (await remove(team.admin, team.operator)).json()).toEqual(answer);
    await expectError(await team.operator.call(`/organizations/${team.id}`), 404, 'ORGANIZATION_NOT_FOUND');
    await expectError(await team.operator.call('/users'), 403, 'ORG_MEMBERSHIP_REQUIRED');
    await expectError(await remove(team.admin, team.operator), 404, 'MEMBER_NOT_FOUND');
    expect((await team.operator.call('/auth/me')).status).toBe(200);
    await team.join(team.operator, 'VIEWER');
  });

  it('a user who is no member gets the same 404 as an unknown one [C-1.3]', async ({
    team,
    other,
    stranger,
    change,
    remove,
  }) => {
    const absent = [stranger, other.viewer, { id: crypto.randomUUID() }];
    const answers = absent.flatMap((of) => [change(team.orgAdmin, of, 'VIEWER'), remove(team.orgAdmin, of)]);
    await expectSameError(answers, 404, 'MEMBER_NOT_FOUND');
    expect(await other.viewer.read(`/organizations/${other.id}`)).toMatchObject({ role: 'VIEWER' });
  });

  it('an id may be in upper case; one that is no UUID gets 400 INVALID_UUID [C-10]', async ({
    team,
    change,
    remove,
  }) => {
    for (const id of ['x', team.viewer.email, `${team.viewer.id}0`]) {
      await expectError(await change(team.orgAdmin, { id }, 'VIEWER'), 400, 'INVALID_UUID');
      await expectError(await remove(team.orgAdmin, { id }), 400, 'INVALID_UUID');
    }
    expect((await remove(team.orgAdmin, { id: team.viewer.id.toUpperCase() })).status).toBe(200);
  });
});

describe('leaving', () => {
  it('a member of any role may leave while another ORG_ADMIN stays, and is a member no longer [C-1.1]', async ({
    team,
    stranger,
    remove,
  }) => {
    for (const role of ROLES) {
      await team.join(stranger, role);
      const response = await remove(stranger, stranger);
      expect([response.status, await response.json()]).toEqual([200, { userId: stranger.id, deleted: true }]);
      await expectError(await stranger.call(`/organizations/${team.id}`), 404, 'ORGANIZATION_NOT_FOUND');
    }
    // Equal events of a minute share a row.
    const rows = (await team.auditRowsOf(stranger.id)).filter(({ event }) => event === 'member.left');
    expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(ROLES.length);
    expect(new Set(rows.map(({ actor }) => actor))).toEqual(new Set([stranger.id]));
  });

  it('a VIEWER or OPERATOR gets 403 for removing anybody else [C-1.2]', async ({ team, remove }) => {
    for (const by of [team.viewer, team.operator]) {
      for (const id of [team.admin.id, crypto.randomUUID()])
        await expectError(await remove(by, { id }), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    }
  });
});
