/** GET and PATCH /users: the members of the organization in context, as users [C-1.2], [C-1.3], [C-1.5]. */
import { makeSuperAdmin, Person } from '#workerd/people.ts';
import { describe, expect, expectError, expectSameError, test } from '#workerd/worker-test.ts';
import type { Page } from '../../../protocol/page.ts';
import type { UserRecord } from '../../../protocol/user.ts';

type Users = Page<UserRecord>;

/** An ADMIN of `team` and of `other`. */
const it = test.extend('both', { scope: 'file', auto: true }, async ({ team, other }) => {
  const both = await Person.register('Both');
  for (const one of [team, other]) await one.join(both, 'ADMIN');
  return both;
});

function patch(by: Person, id: string, role: unknown, org?: string): Promise<Response> {
  return by.patch(`/users/${id}`, { role }, org === undefined ? {} : { org });
}

describe('GET /users', () => {
  it('members are sorted by e-mail, with their role in this organization only, and no secret [C-1.5]', async ({
    team,
    other,
    both,
  }) => {
    const { data, meta } = await team.admin.read<Users>('/users');
    expect(meta).toEqual({ page: 1, limit: 20, total: 5, totalPages: 1 });
    const people = [...team.members, both];
    expect(data.map(({ email }) => email)).toEqual(people.map(({ email }) => email).sort());
    const login = await both.newSession();
    const { user } = await login.read<{ user: UserRecord }>('/auth/me');
    expect(data.find(({ id }) => id === both.id)).toEqual({
      ...user,
      role: 'ADMIN',
      memberships: [{ organizationId: team.id, slug: team.slug, role: 'ADMIN' }],
      lastLoginAt: expect.any(String),
    });
    expect(JSON.stringify(data)).not.toMatch(/scrypt|hash|password|superAdmin|tokenVersion/i);
    expect(JSON.stringify(data)).not.toContain(other.id);
  });

  it('users are listed in pages (spec: List endpoints)', async ({ team }) => {
    const emails = [];
    for (const page of [1, 2, 3]) {
      const { data, meta } = await team.admin.read<Users>(`/users?page=${page}&limit=2`);
      expect(meta).toEqual({ page, limit: 2, total: 5, totalPages: 3 });
      emails.push(...data.map(({ email }) => email));
    }
    expect(new Set(emails).size).toBe(5);
    for (const query of ['limit=101', 'limit=0', 'page=-1', 'page=1e3', 'limit=5x', 'page=1&page=1']) {
      await expectError(await team.admin.call(`/users?${query}`), 400, 'VALIDATION_ERROR');
    }
  });
});

describe('the organization in context', () => {
  it('is the one in x-org-id, or the user’s only organization [C-1.3]', async ({ team, other, both }) => {
    const total = async (by: Person, org?: string) =>
      (await by.read<Users>('/users', org === undefined ? {} : { org })).meta.total;
    expect([await total(team.admin), await total(team.admin, team.id)]).toEqual([5, 5]);
    expect(await total(team.admin, team.id.toUpperCase())).toBe(5);
    const { data } = await both.read<Users>('/users', { org: other.id });
    expect(data.map(({ id }) => id)).toContain(other.viewer.id);
    expect(data.map(({ id }) => id)).not.toContain(team.viewer.id);
  });

  it('must be named by a user of several organizations: 400 ORG_CONTEXT_REQUIRED without it [C-1.3]', async ({
    team,
    both,
  }) => {
    await expectError(await both.call('/users'), 400, 'ORG_CONTEXT_REQUIRED');
    await expectError(await patch(both, team.viewer.id, 'VIEWER'), 400, 'ORG_CONTEXT_REQUIRED');
  });

  it('a user without a membership gets 403 ORG_MEMBERSHIP_REQUIRED [C-1.3]', async ({ team, person }) => {
    await expectError(await person.call('/users'), 403, 'ORG_MEMBERSHIP_REQUIRED');
    await makeSuperAdmin(person);
    for (const options of [{}, { org: team.id }]) {
      await expectError(await person.call('/users', options), 403, 'ORG_MEMBERSHIP_REQUIRED');
    }
  });

  it('gets the same 403 if it is foreign or absent [C-1.3] (bad input: REST)', async ({ team, other }) => {
    const wrong = [other.id, crypto.randomUUID(), 'x', '0', '*', `${team.id},${other.id}`, '__proto__'];
    const answers = [...wrong, other.slug].flatMap((org) =>
      [team.admin, team.viewer].map((one) => one.call('/users', { org })),
    );
    await expectSameError(answers, 403, 'ORG_MEMBERSHIP_REQUIRED');
  });
});

describe('PATCH /users/:id', () => {
  it('a PATCH changes a role in the organization in context only [C-1.2]', async ({ team, other, both }) => {
    const response = await patch(team.orgAdmin, both.id, 'OPERATOR', team.id);
    const membership = { organizationId: team.id, slug: team.slug, role: 'OPERATOR' };
    const changed = { id: both.id, role: 'OPERATOR', memberships: [membership] };
    expect([response.status, await response.json()]).toMatchObject([200, changed]);
    const { memberships } = await both.read<{ memberships: { slug: string; role: string }[] }>('/auth/me');
    const roles = Object.fromEntries(memberships.map(({ slug, role }) => [slug, role]));
    expect(roles).toEqual({ [team.slug]: 'OPERATOR', [other.slug]: 'ADMIN' });
    expect((await patch(team.orgAdmin, both.id.toUpperCase(), 'ADMIN')).status).toBe(200);
  });

  it('a caller who grants or changes a role above their own gets 403 [C-1.2]', async ({ team }) => {
    const refused = [
      [team.admin, team.viewer, 'ORG_ADMIN'],
      [team.admin, team.admin, 'ORG_ADMIN'],
      [team.admin, team.orgAdmin, 'VIEWER'],
      [team.admin, team.orgAdmin, 'ORG_ADMIN'],
    ] as const;
    for (const [by, of, role] of refused) {
      await expectError(await patch(by, of.id, role), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    }
    for (const role of ['OPERATOR', 'VIEWER']) {
      expect(await (await patch(team.admin, team.viewer.id, role)).json()).toMatchObject({ role });
    }
  });

  it('a foreign user gets 404 MEMBER_NOT_FOUND [C-1.3]', async ({ team, other }) => {
    const ids = [other.viewer.id, other.orgAdmin.id, crypto.randomUUID()];
    await expectSameError(
      ids.map((id) => patch(team.admin, id, 'VIEWER')),
      404,
      'MEMBER_NOT_FOUND',
    );
  });

  it('an id that is no UUID, or a role other than the four, gets 400 (bad input: REST) [C-10]', async ({
    team,
  }) => {
    for (const id of ['x', team.viewer.email, '0']) {
      await expectError(await patch(team.admin, id, 'VIEWER'), 400, 'INVALID_UUID');
    }
    for (const role of ['SUPER_ADMIN', 'viewer', '', null, undefined, ['VIEWER']]) {
      await expectError(await patch(team.admin, team.viewer.id, role), 400, 'VALIDATION_ERROR');
    }
    const body = { role: 'VIEWER', email: 'x@example.org' };
    await expectError(await team.admin.patch(`/users/${team.viewer.id}`, body), 400, 'VALIDATION_ERROR');
  });
});
