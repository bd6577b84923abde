/** Organizations: who makes them, and who sees them [C-1.1]. */
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import type { OrganizationRecord } from '../../../protocol/organization.ts';
import type { Page } from '../../../protocol/page.ts';
import { createOrganization as makeOrganization } from '../../../worker/registry/organizations.ts';
import { call, createTeam, makeSuperAdmin, Person, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { createOrganization } from '../../support/workerd/world.ts';

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
};

let team: Team;
let other: Team;

beforeAll(async () => {
  [team, other] = await Promise.all([createTeam(), createTeam()]);
});

const uniqueSlug = () => `org-${crypto.randomUUID().slice(0, 13)}`;

async function make(person: Person, slug = uniqueSlug()): Promise<OrganizationRecord> {
  return await person.read('/organizations', { method: 'POST', body: { name: 'Acme', slug } }, 201);
}

async function expectRefused(body: unknown): Promise<void> {
  const response = await team.orgAdmin.call('/organizations', { method: 'POST', body });
  await expectError(response, 400, 'VALIDATION_ERROR');
}

describe('POST /organizations', () => {
  it('makes one with every setting at its default, and its maker its ORG_ADMIN [C-1.1] [C-1.2]', async () => {
    const person = await Person.register();
    const slug = uniqueSlug();
    const made = await make(person, slug);
    expect(made).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'Acme',
      slug,
      settings: DEFAULTS,
      createdAt: expect.stringMatching(/Z$/),
      role: 'ORG_ADMIN',
    });
    expect(await person.read(`/organizations/${made.id}`)).toEqual(made);
    const audited = await env.DB.prepare(
      'SELECT event, actor, target FROM audit_events WHERE organization_id = ?',
    )
      .bind(made.id)
      .all();
    expect(audited.results).toEqual([{ event: 'organization.created', actor: person.id, target: made.id }]);
  });

  it('takes slugs of 1 to 40 lower-case letters, digits and inner hyphens [C-1.1]', async () => {
    const unique = crypto.randomUUID().slice(0, 8);
    const right = [unique, `${unique}--x`, `${unique}-`.padEnd(40, 'x'), `0${unique}`];
    for (const slug of right) expect((await make(team.orgAdmin, slug)).slug).toBe(slug);
    const wrong = [
      '',
      '-',
      '-a',
      'a-',
      'a'.repeat(41),
      'Acme',
      'a_b',
      'a.b',
      'a b',
      'a*',
      '#',
      'á',
      'a\n',
      '\na',
      'а',
    ];
    const others = ['acme2.', 'a/b', '%2e', null, 7, ['acme'], undefined];
    await Promise.all([...wrong, ...others].map((slug) => expectRefused({ name: 'Acme', slug })));
  });

  it('gives a slug to one alone, of many at once too [C-1.1]', async () => {
    const slug = uniqueSlug();
    const people = [team.viewer, team.admin, other.orgAdmin, other.viewer];
    const options = { method: 'POST', body: { name: 'Acme', slug } } as const;
    const answers = await Promise.all(people.map((person) => person.call('/organizations', options)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
    await expectError(await team.viewer.call('/organizations', options), 409, 'CONFLICT');
  });

  it('makes a user a member of 100 at most (ours)', async () => {
    const person = await Person.register();
    const maker = { id: person.id, email: person.email, address: null };
    for (let count = 0; count < 99; count++) {
      await makeOrganization(env.DB, { name: 'Acme', slug: uniqueSlug() }, maker, Date.now());
    }
    await make(person);
    const options = { method: 'POST', body: { name: 'Acme', slug: uniqueSlug() } } as const;
    await expectError(await person.call('/organizations', options), 409, 'CONFLICT');
  });

  it('takes nothing but name and slug (bad input: REST)', async () => {
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
    await Promise.all(bodies.map(expectRefused));
  });

  it('is for users [C-1.1]', async () => {
    await expectError(await call('/organizations', { method: 'POST', body: {} }), 401, 'UNAUTHORIZED');
  });
});

describe('GET /organizations', () => {
  it('lists one’s own by slug, each with one’s role there (spec: List endpoints)', async () => {
    const person = await Person.register();
    const made = [await make(person), await make(person)];
    const body = { email: person.email, role: 'VIEWER' };
    await other.orgAdmin.read(`/organizations/${other.id}/members`, { method: 'POST', body }, 201);
    const { data, meta } = await person.read<Organizations>('/organizations');
    const own = [...made, { id: other.id, slug: other.slug, role: 'VIEWER' }];
    const wanted = own
      .map(({ id, slug, role }) => ({ id, slug, role }))
      .sort((a, b) => (a.slug < b.slug ? -1 : 1));
    expect(data.map(({ id, slug, role }) => ({ id, slug, role }))).toEqual(wanted);
    expect(meta).toEqual({ page: 1, limit: 20, total: 3, totalPages: 1 });
  });

  it('goes page by page, none twice, and an empty one behind the last (spec: List endpoints)', async () => {
    const person = await Person.register();
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

  it('takes page from 1 and limit from 1 to 100, as plain digits once (bad input: REST)', async () => {
    const wrong = ['limit=0', 'limit=101', 'limit=-1', 'limit=1e1', 'limit=5x', 'limit=', 'limit=1&limit=1'];
    for (const query of [...wrong, 'page=0', 'page=-1', 'page=1.0', 'page=x', 'page=99999999999', 'all=1']) {
      await expectError(await team.viewer.call(`/organizations?${query}`), 400, 'VALIDATION_ERROR');
    }
  });

  it('with all=true is every one there is, for a SUPER_ADMIN alone [C-1.1]', async () => {
    for (const person of [team.viewer, team.orgAdmin]) {
      const response = await person.call('/organizations?all=true');
      await expectError(response, 403, 'SUPER_ADMIN_REQUIRED');
    }
    const person = await Person.register();
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
  it('is shown to its members, each with their role [C-1.1]', async () => {
    for (const [person, role] of [
      [team.viewer, 'VIEWER'],
      [team.operator, 'OPERATOR'],
      [team.admin, 'ADMIN'],
      [team.orgAdmin, 'ORG_ADMIN'],
    ] as const) {
      expect(await person.read(`/organizations/${team.id}`)).toMatchObject({ id: team.id, role });
    }
    expect(await team.viewer.read(`/organizations/${team.id.toUpperCase()}`)).toMatchObject({ id: team.id });
  });

  it('that is foreign answers as one that does not exist, on every path [C-1.1] [C-1.3]', async () => {
    const keyed = await createOrganization();
    const calls = [
      ['', { method: 'GET' }],
      ['', { method: 'PATCH', body: { name: 'x' } }],
      ['', { method: 'PATCH', body: { slug: 'x' } }],
      ['', { method: 'PUT' }],
      ['/members', { method: 'GET' }],
      ['/members', { method: 'POST', body: { email: other.viewer.email, role: 'VIEWER' } }],
      [`/members/${other.viewer.id}`, { method: 'PATCH', body: { role: 'ADMIN' } }],
      [`/members/${other.viewer.id}`, { method: 'DELETE' }],
    ] as const;
    for (const [rest, options] of calls) {
      const answers = [crypto.randomUUID(), other.id, keyed.id].map(async (id) => {
        const response = await team.orgAdmin.call(`/organizations/${id}${rest}`, {
          ...options,
          org: other.id,
        });
        const text = await response.clone().text();
        await expectError(response, 404, 'ORGANIZATION_NOT_FOUND');
        return text;
      });
      expect(new Set(await Promise.all(answers)).size).toBe(1);
    }
  });

  it('that is foreign is so to a SUPER_ADMIN too [C-1.1]', async () => {
    const person = await Person.register();
    await makeSuperAdmin(person);
    for (const rest of ['', '/members']) {
      await expectError(await person.call(`/organizations/${team.id}${rest}`), 404, 'ORGANIZATION_NOT_FOUND');
    }
  });

  it('whose id is no UUID gets 400 INVALID_UUID [C-10]', async () => {
    for (const id of ['x', '1', `${team.id}x`, team.id.slice(1), `{${team.id}}`, team.slug, '%27']) {
      for (const rest of ['', '/members']) {
        await expectError(await team.orgAdmin.call(`/organizations/${id}${rest}`), 400, 'INVALID_UUID');
      }
    }
    await expectError(await call('/organizations/x'), 401, 'UNAUTHORIZED');
  });
});
