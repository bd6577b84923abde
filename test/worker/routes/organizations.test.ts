/** Organizations: how they are made, and who sees them [C-1.1]. */
import { env } from 'cloudflare:workers';
import { anonymous } from '#workerd/client.ts';
import { auditRows } from '#workerd/door.ts';
import { joinOrganization, makeSuperAdmin, Person } from '#workerd/people.ts';
import { uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, expectSameError, it, UUID } from '#workerd/worker-test.ts';
import { createOrganization } from '#workerd/world.ts';
import type { OrganizationRecord } from '../../../protocol/organization.ts';
import type { Page } from '../../../protocol/page.ts';

type Organizations = Page<OrganizationRecord>;

const DEFAULTS = {
  requireSignedCommands: false,
  signatureHints: false,
  authFailurePolicy: 'any',
  telemetryIntervalSeconds: 10,
  publishRatePerSecond: 50,
  deviceRatePerSecond: 20,
  restRatePerMinute: 600,
  auditRetentionDays: 400,
  rawRetentionDays: 30,
  fiveMinuteRetentionDays: 365,
  hourlyRetentionDays: 1_825,
  journalRetentionDays: 7,
};

async function make(person: Person, slug = uniqueSlug()): Promise<OrganizationRecord> {
  return await person.create('/organizations', { name: 'Acme', slug });
}

async function expectRefused(by: Person, bodies: readonly unknown[]): Promise<void> {
  for (const body of bodies)
    await expectError(await by.post('/organizations', body), 400, 'VALIDATION_ERROR');
}

describe('POST /organizations', () => {
  it('a new organization has the default settings, and its creator is ORG_ADMIN [C-1.1] [C-1.2]', async ({
    person,
  }) => {
    const slug = uniqueSlug();
    const made = await make(person, slug);
    expect(made).toEqual({
      id: UUID,
      name: 'Acme',
      slug,
      settings: DEFAULTS,
      createdAt: expect.stringMatching(/Z$/),
      role: 'ORG_ADMIN',
    });
    expect(await person.read(`/organizations/${made.id}`)).toEqual(made);
    const row = { event: 'organization.created', actor: person.id, target: made.id };
    expect(await auditRows(made.id)).toMatchObject([row]);
  });

  it('a slug gets 400 unless it has 1 to 40 lower-case letters, digits and inner hyphens [C-1.1]', async ({
    team,
  }) => {
    const unique = crypto.randomUUID().slice(0, 8);
    const right = [unique, `${unique}--x`, `${unique}-`.padEnd(40, 'x'), `0${unique}`];
    for (const slug of right) expect((await make(team.orgAdmin, slug)).slug).toBe(slug);
    const wrong = ['', '-', '-a', 'a-', 'a'.repeat(41), 'Acme', 'a_b', 'a.b', 'a b', 'a*', '#', 'á', 'а'];
    const others = ['a\n', '\na', 'acme2.', 'a/b', '%2e', null, 7, ['acme'], undefined];
    const bodies = [...wrong, ...others].map((slug) => ({ name: 'Acme', slug }));
    await expectRefused(team.orgAdmin, bodies);
  });

  it('succeeds for one of concurrent requests for one slug, and the others get 409 [C-1.1]', async ({
    team,
    other,
  }) => {
    const slug = uniqueSlug();
    const people = [team.viewer, team.admin, other.orgAdmin, other.viewer];
    const body = { name: 'Acme', slug };
    const answers = await Promise.all(people.map((one) => one.post('/organizations', body)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
    await expectError(await team.viewer.post('/organizations', body), 409, 'CONFLICT');
  });

  it('a user who is ORG_ADMIN of ten organizations gets 409 for another one [C-14.2]', async ({ person }) => {
    for (let count = 0; count < 10; count++) await make(person);
    const refused = await person.post('/organizations', { name: 'Acme', slug: uniqueSlug() });
    await expectError(refused, 409, 'CONFLICT');
  });

  it('a user who is a member of 100 organizations gets 409 for a new one until they leave one [C-14.2]', async ({
    person,
  }) => {
    const ids: string[] = [];
    for (let count = 0; count < 100; count++) ids.push((await createOrganization()).id);
    for (const id of ids) await joinOrganization(id, person, 'VIEWER');
    const refused = await person.post('/organizations', { name: 'Acme', slug: uniqueSlug() });
    const { message } = await expectError(refused, 409, 'CONFLICT');
    expect(message).toContain('100 in all');
    await person.remove(`/organizations/${ids[0]}/members/${person.id}`);
    expect((await make(person)).role).toBe('ORG_ADMIN');
  });

  it('a body gets 400 unless it has a name, a slug and nothing else (bad input: REST)', async ({ team }) => {
    const made = { name: 'Acme', slug: uniqueSlug() };
    const others = ['id', 'settings', 'createdAt', 'role', 'registryVersion', 'ownerId', 'constructor'];
    const bodies = [
      ...others.map((name) => ({ ...made, [name]: team.id })),
      { ...made, name: '' },
      { ...made, name: '  ' },
      { ...made, name: 'x'.repeat(101) },
      { slug: made.slug },
      null,
    ];
    await expectRefused(team.orgAdmin, bodies);
  });
});

describe('GET /organizations', () => {
  it('users see their organizations, sorted by slug (spec: List endpoints)', async ({ other, person }) => {
    const made = [await make(person), await make(person)];
    await other.join(person, 'VIEWER');
    const { data, meta } = await person.read<Organizations>('/organizations');
    const own = [...made, { id: other.id, slug: other.slug, role: 'VIEWER' }];
    const wanted = own
      .map(({ id, slug, role }) => ({ id, slug, role }))
      .sort((a, b) => (a.slug < b.slug ? -1 : 1));
    expect(data.map(({ id, slug, role }) => ({ id, slug, role }))).toEqual(wanted);
    expect(meta).toEqual({ page: 1, limit: 20, total: 3, totalPages: 1 });
  });

  it('organizations are listed in pages (spec: List endpoints)', async ({ person }) => {
    const made = [await make(person), await make(person), await make(person)];
    const pages = [];
    for (const page of [1, 2, 3]) {
      const answer = await person.read<Organizations>(`/organizations?page=${page}&limit=2`);
      expect(answer.meta).toEqual({ page, limit: 2, total: 3, totalPages: 2 });
      pages.push(answer.data.map(({ slug }) => slug));
    }
    expect(pages.map(({ length }) => length)).toEqual([2, 1, 0]);
    expect(pages.flat()).toEqual(made.map(({ slug }) => slug).sort());
    const none = await (await Person.register()).read('/organizations?limit=100');
    expect(none).toEqual({ data: [], meta: { page: 1, limit: 100, total: 0, totalPages: 0 } });
  });

  it('page and limit get 400 unless they are plain digits within their bounds (bad input: REST)', async ({
    team,
  }) => {
    const wrong = ['limit=0', 'limit=101', 'limit=-1', 'limit=1e1', 'limit=5x', 'limit=', 'limit=1&limit=1'];
    for (const query of [...wrong, 'page=0', 'page=-1', 'page=1.0', 'page=x', 'page=99999999999', 'all=1']) {
      await expectError(await team.viewer.call(`/organizations?${query}`), 400, 'VALIDATION_ERROR');
    }
  });

  it('all=true lists every organization for a SUPER_ADMIN only [C-1.1]', async ({ team, person }) => {
    for (const one of [team.viewer, team.orgAdmin]) {
      await expectError(await one.call('/organizations?all=true'), 403, 'SUPER_ADMIN_REQUIRED');
    }
    const own = await make(person);
    await makeSuperAdmin(person);
    expect((await person.read<Organizations>('/organizations')).data).toEqual([own]);
    expect((await person.read<Organizations>('/organizations?all=false')).data).toEqual([own]);
    const total = await env.DB.prepare('SELECT count(*) AS n FROM organizations').first<number>('n');
    const data: OrganizationRecord[] = [];
    for (let page = 1, pages = 1; page <= pages; page++) {
      const answer = await person.read<Organizations>(`/organizations?all=true&limit=100&page=${page}`);
      pages = answer.meta.totalPages;
      data.push(...answer.data);
    }
    expect(new Set(data.map(({ id }) => id)).size).toBe(total);
    const roles = data.filter(({ id }) => [own.id, team.id].includes(id)).map(({ id, role }) => [id, role]);
    expect(Object.fromEntries(roles)).toEqual({ [own.id]: 'ORG_ADMIN', [team.id]: null });
  });
});

describe('an organization in the path', () => {
  it('every member sees the organization with their role [C-1.1]', async ({ team }) => {
    for (const [member, role] of [
      [team.viewer, 'VIEWER'],
      [team.operator, 'OPERATOR'],
      [team.admin, 'ADMIN'],
      [team.orgAdmin, 'ORG_ADMIN'],
    ] as const) {
      expect(await member.read(`/organizations/${team.id}`)).toMatchObject({ id: team.id, role });
    }
    expect(await team.viewer.read(`/organizations/${team.id.toUpperCase()}`)).toMatchObject({ id: team.id });
  });

  it('a foreign organization gets the 404 of an absent one [C-1.1] [C-1.3]', async ({
    team,
    other,
    organization,
  }) => {
    // foreign-as-absent.test.ts sends valid requests of each route; these would be refused for another reason, too.
    const calls = [{ method: 'GET' }, { method: 'PATCH', body: { slug: 'x' } }, { method: 'PUT' }] as const;
    for (const options of calls) {
      const answers = [crypto.randomUUID(), other.id, organization.id].map((id) =>
        team.orgAdmin.call(`/organizations/${id}`, { ...options, org: other.id }),
      );
      await expectSameError(answers, 404, 'ORGANIZATION_NOT_FOUND');
    }
  });

  it('a SUPER_ADMIN does not see a foreign organization [C-1.1]', async ({ team, person }) => {
    await makeSuperAdmin(person);
    for (const rest of ['', '/members']) {
      await expectError(await person.call(`/organizations/${team.id}${rest}`), 404, 'ORGANIZATION_NOT_FOUND');
    }
  });

  it('an id that is no UUID gets 400 INVALID_UUID [C-10]', async ({ team }) => {
    for (const id of ['x', '1', `${team.id}x`, team.id.slice(1), `{${team.id}}`, team.slug, '%27']) {
      for (const rest of ['', '/members']) {
        await expectError(await team.orgAdmin.call(`/organizations/${id}${rest}`), 400, 'INVALID_UUID');
      }
    }
    await expectError(await anonymous.call('/organizations/x'), 401, 'UNAUTHORIZED');
  });
});
