/** Members of an organization: who is taken in, and nobody gives or takes a role above their own [C-1.1], [C-1.2]. */
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { MemberRecord, OrganizationRecord } from '../../../protocol/organization.ts';
import type { Page } from '../../../protocol/page.ts';
import type { Role } from '../../../protocol/roles.ts';
import { createTeam, Person, resetRoles, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

const ROLES: Role[] = ['VIEWER', 'OPERATOR', 'ADMIN', 'ORG_ADMIN'];

let team: Team;
let other: Team;
/** Nobody's member yet. */
let stranger: Person;

beforeAll(async () => {
  [team, other, stranger] = await Promise.all([createTeam(), createTeam(), Person.register('Stranger')]);
});

beforeEach(async () => {
  await resetRoles(team);
});

function add(by: Person, body: unknown): Promise<Response> {
  return by.call(`/organizations/${team.id}/members`, { method: 'POST', body });
}

function change(by: Person, of: { id: string }, role: unknown): Promise<Response> {
  return by.call(`/organizations/${team.id}/members/${of.id}`, { method: 'PATCH', body: { role } });
}

function remove(by: Person, of: { id: string }): Promise<Response> {
  return by.call(`/organizations/${team.id}/members/${of.id}`, { method: 'DELETE' });
}

async function rolesNow(): Promise<Record<string, Role>> {
  const rows = await env.DB.prepare('SELECT user_id, role FROM memberships WHERE organization_id = ?')
    .bind(team.id)
    .all<{ user_id: string; role: Role }>();
  return Object.fromEntries(rows.results.map(({ user_id, role }) => [user_id, role]));
}

describe('GET /organizations/:id/members', () => {
  it('shows every member with their role to every member, by e-mail [C-1.1]', async () => {
    const people = [team.viewer, team.operator, team.admin, team.orgAdmin];
    const wanted = people.map(({ id, email }, index) => ({
      userId: id,
      email,
      name: 'Somebody',
      role: ROLES[index],
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    }));
    for (const person of people) {
      const page = await person.read<Page<MemberRecord>>(`/organizations/${team.id}/members`);
      expect(page.data).toEqual(wanted.sort((a, b) => (a.email < b.email ? -1 : 1)));
      expect(page.meta).toEqual({ page: 1, limit: 20, total: 4, totalPages: 1 });
    }
  });

  it('shows since when each is a member, not since when a user [C-1.1]', async () => {
    await env.DB.prepare('UPDATE users SET created_at_ms = 1 WHERE id = ?').bind(team.viewer.id).run();
    const { data } = await team.viewer.read<Page<MemberRecord>>(`/organizations/${team.id}/members`);
    const own = data.find(({ userId }) => userId === team.viewer.id);
    expect(Date.parse(own?.createdAt ?? '')).toBeGreaterThan(1);
  });

  it('goes page by page, none twice (spec: List endpoints)', async () => {
    const emails = [];
    for (const page of [1, 2, 3]) {
      const path = `/organizations/${team.id}/members?page=${page}&limit=3`;
      const { data, meta } = await team.viewer.read<Page<MemberRecord>>(path);
      expect(meta).toEqual({ page, limit: 3, total: 4, totalPages: 2 });
      emails.push(...data.map(({ email }) => email));
    }
    const people = [team.viewer, team.operator, team.admin, team.orgAdmin];
    expect(emails).toEqual(people.map(({ email }) => email).sort());
    const response = await team.viewer.call(`/organizations/${team.id}/members?limit=101`);
    await expectError(response, 400, 'VALIDATION_ERROR');
  });
});

describe('POST /organizations/:id/members', () => {
  it('takes a registered user in, at once, in whatever case the e-mail comes [C-1.1]', async () => {
    await expectError(await stranger.call(`/organizations/${team.id}`), 404, 'ORGANIZATION_NOT_FOUND');
    const response = await add(team.admin, { email: stranger.email.toUpperCase(), role: 'OPERATOR' });
    expect([response.status, await response.json()]).toEqual([
      201,
      {
        userId: stranger.id,
        email: stranger.email,
        name: 'Stranger',
        role: 'OPERATOR',
        createdAt: expect.any(String),
      },
    ]);
    expect(await stranger.read(`/organizations/${team.id}`)).toMatchObject({ role: 'OPERATOR' });
  });

  it('knows no user of an e-mail that nobody registered: 404 MEMBER_NOT_FOUND [C-1.1]', async () => {
    const response = await add(team.orgAdmin, {
      email: `${crypto.randomUUID()}@example.org`,
      role: 'VIEWER',
    });
    await expectError(response, 404, 'MEMBER_NOT_FOUND');
  });

  it('takes nobody in twice: 409, the role as it was [C-10]', async () => {
    const answers = await Promise.all(
      ROLES.map((role) => add(team.orgAdmin, { email: stranger.email, role })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
    const before = await rolesNow();
    await expectError(await add(team.orgAdmin, { email: stranger.email, role: 'VIEWER' }), 409, 'CONFLICT');
    expect(await rolesNow()).toEqual(before);
  });

  it('takes in 1 000 at most (ours)', async () => {
    const maker = await Person.register();
    const slug = `full-${crypto.randomUUID().slice(0, 8)}`;
    const made = { method: 'POST', body: { name: slug, slug } } as const;
    const { id: full } = await maker.read<OrganizationRecord>('/organizations', made, 201);
    const addThere = ({ email }: Person) =>
      maker.call(`/organizations/${full}/members`, { method: 'POST', body: { email, role: 'VIEWER' } });
    const ids = Array.from({ length: 998 }, () => crypto.randomUUID());
    const user = env.DB.prepare(`INSERT INTO users (id, email, name, created_at_ms) VALUES (?1, ?1, 'x', 1)`);
    const member = env.DB.prepare(
      `INSERT INTO memberships (organization_id, user_id, role, created_at_ms) VALUES (?, ?, 'VIEWER', 1)`,
    );
    await env.DB.batch(ids.flatMap((id) => [user.bind(id), member.bind(full, id)]));
    expect((await addThere(other.admin)).status).toBe(201);
    await expectError(await addThere(other.viewer), 409, 'CONFLICT');
  });

  it('takes an e-mail and one of the roles, nothing else (bad input: REST)', async () => {
    const right = { email: stranger.email, role: 'VIEWER' };
    const wrong = ['SUPER_ADMIN', 'viewer', '', 'OWNER', null, 1, ['VIEWER'], '__proto__', undefined];
    const bodies = [
      ...wrong.map((role) => ({ ...right, role })),
      { role: 'VIEWER' },
      { ...right, email: 'x' },
      { ...right, userId: stranger.id },
      { ...right, organizationId: other.id },
      null,
    ];
    const answers = await Promise.all(bodies.map((body) => add(team.orgAdmin, body)));
    for (const answer of answers) await expectError(answer, 400, 'VALIDATION_ERROR');
    expect(Object.keys(await rolesNow())).toHaveLength(4);
  });
});

describe('a role', () => {
  it('is given by ADMIN or higher, and none above the giver’s own [C-1.2]', async () => {
    const givers: [Person, Role[]][] = [
      [team.viewer, []],
      [team.operator, []],
      [team.admin, ['VIEWER', 'OPERATOR', 'ADMIN']],
      [team.orgAdmin, ROLES],
    ];
    for (const [giver, allowed] of givers) {
      for (const role of ROLES) {
        const response = await add(giver, { email: stranger.email, role });
        if (!allowed.includes(role)) await expectError(response, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
        else expect([role, response.status]).toEqual([role, 201]);
        if (response.status === 201) await resetRoles(team);
      }
    }
  });

  it('is changed by ADMIN or higher, of nobody above and to nothing above [C-1.2]', async () => {
    await add(team.orgAdmin, { email: stranger.email, role: 'VIEWER' });
    const before = await rolesNow();
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
    expect(await rolesNow()).toEqual(before);
    for (const role of ['ADMIN', 'OPERATOR', 'OPERATOR', 'VIEWER'] as const) {
      const response = await change(team.admin, stranger, role);
      expect([response.status, await response.json()]).toMatchObject([200, { userId: stranger.id, role }]);
      expect((await rolesNow())[stranger.id]).toBe(role);
    }
  });

  it('holds from the next request on [C-1.2]', async () => {
    await change(team.orgAdmin, team.admin, 'VIEWER');
    const response = await add(team.admin, { email: stranger.email, role: 'VIEWER' });
    await expectError(response, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    await change(team.orgAdmin, team.viewer, 'ADMIN');
    expect((await add(team.viewer, { email: stranger.email, role: 'VIEWER' })).status).toBe(201);
  });

  it('is one of the four (bad input: REST)', async () => {
    for (const role of ['SUPER_ADMIN', 'admin', '', null, 3, ['ADMIN'], undefined]) {
      await expectError(await change(team.orgAdmin, team.viewer, role), 400, 'VALIDATION_ERROR');
    }
  });

  it('that changed leaves a row of who gave it, one that stayed none [C-8.4]', async () => {
    const since = (await env.DB.prepare('SELECT max(rowid) AS n FROM audit_events').first<number>('n')) ?? 0;
    await add(team.admin, { email: stranger.email, role: 'VIEWER' });
    for (const role of ['ADMIN', 'ADMIN'] as const) await change(team.orgAdmin, stranger, role);
    await change(team.admin, team.orgAdmin, 'VIEWER');
    await remove(team.orgAdmin, stranger);
    const rows = await env.DB.prepare(
      'SELECT event, actor, target, details FROM audit_events WHERE organization_id = ? AND rowid > ? ORDER BY rowid',
    )
      .bind(team.id, since)
      .all<{ event: string; actor: string; target: string; details: string }>();
    const [actor, target] = [team.orgAdmin.id, stranger.id];
    expect(rows.results.map((row) => ({ ...row, details: JSON.parse(row.details) }))).toEqual([
      { event: 'member.added', actor: team.admin.id, target, details: { role: 'VIEWER' } },
      { event: 'member.role_changed', actor, target, details: { from: 'VIEWER', to: 'ADMIN' } },
      { event: 'member.removed', actor, target, details: { role: 'ADMIN' } },
    ]);
  });
});

describe('a member who is put out', () => {
  it('is one no more, at once, and can be taken in again [C-1.2]', async () => {
    const answer = { userId: team.operator.id, deleted: true };
    expect(await (await remove(team.admin, team.operator)).json()).toEqual(answer);
    await expectError(await team.operator.call(`/organizations/${team.id}`), 404, 'ORGANIZATION_NOT_FOUND');
    await expectError(await team.operator.call('/users'), 403, 'ORG_MEMBERSHIP_REQUIRED');
    await expectError(await remove(team.admin, team.operator), 404, 'MEMBER_NOT_FOUND');
    expect((await team.operator.call('/auth/me')).status).toBe(200);
    expect((await add(team.admin, { email: team.operator.email, role: 'VIEWER' })).status).toBe(201);
  });

  it('who is none answers as nobody: a foreign user as an unknown one [C-1.3]', async () => {
    const texts = new Set<string>();
    for (const of of [stranger, other.viewer, { id: crypto.randomUUID() }]) {
      for (const response of [await change(team.orgAdmin, of, 'VIEWER'), await remove(team.orgAdmin, of)]) {
        texts.add(await response.clone().text());
        await expectError(response, 404, 'MEMBER_NOT_FOUND');
      }
    }
    expect(texts.size).toBe(1);
    expect(await other.viewer.read(`/organizations/${other.id}`)).toMatchObject({ role: 'VIEWER' });
  });

  it('has a UUID, in either case, or gets 400 INVALID_UUID [C-10]', async () => {
    for (const id of ['x', team.viewer.email, `${team.viewer.id}0`]) {
      await expectError(await change(team.orgAdmin, { id }, 'VIEWER'), 400, 'INVALID_UUID');
      await expectError(await remove(team.orgAdmin, { id }), 400, 'INVALID_UUID');
    }
    expect((await remove(team.orgAdmin, { id: team.viewer.id.toUpperCase() })).status).toBe(200);
  });
});
