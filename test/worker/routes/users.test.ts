/** GET and PATCH /users: the members of the organization in context, as users [C-1.2], [C-1.3], [C-1.5]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Page } from '../../../protocol/page.ts';
import type { UserRecord } from '../../../protocol/user.ts';
import { call, createTeam, makeSuperAdmin, Person, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

type Users = Page<UserRecord>;

let team: Team;
let other: Team;
/** OPERATOR in both. */
let both: Person;

beforeAll(async () => {
  [team, other, both] = await Promise.all([createTeam(), createTeam(), Person.register('Both')]);
  for (const { id, orgAdmin } of [team, other]) {
    const body = { email: both.email, role: 'ADMIN' };
    await orgAdmin.read(`/organizations/${id}/members`, { method: 'POST', body }, 201);
  }
});

function patch(by: Person, id: string, role: unknown, org?: string): Promise<Response> {
  const options = { method: 'PATCH', body: { role } } as const;
  return by.call(`/users/${id}`, org === undefined ? options : { ...options, org });
}

describe('GET /users', () => {
  it('shows the members by e-mail, each with the membership here and no other, and no hash [C-1.5]', async () => {
    const { data, meta } = await team.admin.read<Users>('/users');
    expect(meta).toEqual({ page: 1, limit: 20, total: 5, totalPages: 1 });
    const people = [team.viewer, team.operator, team.admin, team.orgAdmin, both];
    expect(data.map(({ email }) => email)).toEqual(people.map(({ email }) => email).sort());
    const login = await Person.logIn(both.email);
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

  it('goes page by page, none twice (spec: List endpoints)', async () => {
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

  it('is for ADMIN or higher [C-1.2]', async () => {
    for (const person of [team.viewer, team.operator]) {
      await expectError(await person.call('/users'), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      await expectError(await patch(person, person.id, 'ADMIN'), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    }
    for (const person of [team.admin, team.orgAdmin]) expect((await person.call('/users')).status).toBe(200);
    await expectError(await call('/users', { org: team.id }), 401, 'UNAUTHORIZED');
  });
});

describe('the org context', () => {
  it('is the header’s organization, or the only one of the user [C-1.3]', async () => {
    const total = async (person: Person, org?: string) =>
      (await person.read<Users>('/users', org === undefined ? {} : { org })).meta.total;
    expect([await total(team.admin), await total(team.admin, team.id)]).toEqual([5, 5]);
    expect(await total(team.admin, team.id.toUpperCase())).toBe(5);
    const { data } = await both.read<Users>('/users', { org: other.id });
    expect(data.map(({ id }) => id)).toContain(other.viewer.id);
    expect(data.map(({ id }) => id)).not.toContain(team.viewer.id);
  });

  it('is asked for where there are several: 400 ORG_CONTEXT_REQUIRED [C-1.3]', async () => {
    await expectError(await both.call('/users'), 400, 'ORG_CONTEXT_REQUIRED');
    await expectError(await patch(both, team.viewer.id, 'VIEWER'), 400, 'ORG_CONTEXT_REQUIRED');
  });

  it('is none for who is no member anywhere: 403 ORG_MEMBERSHIP_REQUIRED [C-1.3]', async () => {
    const stranger = await Person.register();
    await expectError(await stranger.call('/users'), 403, 'ORG_MEMBERSHIP_REQUIRED');
    await makeSuperAdmin(stranger);
    for (const options of [{}, { org: team.id }]) {
      await expectError(await stranger.call('/users', options), 403, 'ORG_MEMBERSHIP_REQUIRED');
    }
  });

  it('is no foreign organization, which answers as one that does not exist [C-1.3] (bad input: REST)', async () => {
    const texts = new Set<string>();
    const wrong = [
      other.id,
      crypto.randomUUID(),
      'x',
      '0',
      '*',
      `${team.id},${other.id}`,
      '__proto__',
      other.slug,
    ];
    for (const org of wrong) {
      for (const person of [team.admin, team.viewer]) {
        const response = await person.call('/users', { org });
        texts.add(await response.clone().text());
        await expectError(response, 403, 'ORG_MEMBERSHIP_REQUIRED');
      }
    }
    expect(texts.size).toBe(1);
  });
});

describe('PATCH /users/:id', () => {
  it('changes the role in the context alone [C-1.2]', async () => {
    const response = await patch(team.orgAdmin, both.id, 'OPERATOR', team.id);
    expect([response.status, await response.json()]).toMatchObject([
      200,
      {
        id: both.id,
        role: 'OPERATOR',
        memberships: [{ organizationId: team.id, slug: team.slug, role: 'OPERATOR' }],
      },
    ]);
    const { memberships } = await both.read<{ memberships: { slug: string; role: string }[] }>('/auth/me');
    const roles = Object.fromEntries(memberships.map(({ slug, role }) => [slug, role]));
    expect(roles).toEqual({ [team.slug]: 'OPERATOR', [other.slug]: 'ADMIN' });
    expect((await patch(team.orgAdmin, both.id.toUpperCase(), 'ADMIN')).status).toBe(200);
  });

  it('grants nothing above one’s own role, and changes nobody above [C-1.2]', async () => {
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

  it('of a foreign user answers as of an unknown one: 404 MEMBER_NOT_FOUND [C-1.3]', async () => {
    const texts = new Set<string>();
    for (const id of [other.viewer.id, other.orgAdmin.id, crypto.randomUUID()]) {
      const response = await patch(team.admin, id, 'VIEWER');
      texts.add(await response.clone().text());
      await expectError(response, 404, 'MEMBER_NOT_FOUND');
    }
    expect(texts.size).toBe(1);
  });

  it('takes a UUID and one of the roles (bad input: REST) [C-10]', async () => {
    for (const id of ['x', team.viewer.email, '0']) {
      await expectError(await patch(team.admin, id, 'VIEWER'), 400, 'INVALID_UUID');
    }
    for (const role of ['SUPER_ADMIN', 'viewer', '', null, undefined, ['VIEWER']]) {
      await expectError(await patch(team.admin, team.viewer.id, role), 400, 'VALIDATION_ERROR');
    }
    const body = { role: 'VIEWER', email: 'x@example.org' };
    const response = await team.admin.call(`/users/${team.viewer.id}`, { method: 'PATCH', body });
    await expectError(response, 400, 'VALIDATION_ERROR');
  });
});
