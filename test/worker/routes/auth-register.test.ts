/** POST /auth/register: a user, and with it an organization, or neither [C-1.4]. */
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import type { OrganizationRecord } from '../../../protocol/organization.ts';
import type { UserRecord } from '../../../protocol/user.ts';
import { bodyOf, call, PASSWORD, Person } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

interface Registered {
  user: UserRecord;
  organization: OrganizationRecord | null;
}

const uniqueEmail = () => `${crypto.randomUUID()}@example.org`;
const uniqueSlug = () => `org-${crypto.randomUUID().slice(0, 13)}`;

function registration(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return { email: uniqueEmail(), password: PASSWORD, name: 'Jana', ...changes };
}

function register(body: unknown): Promise<Response> {
  return call('/auth/register', { method: 'POST', body });
}

async function registered(changes: Record<string, unknown> = {}): Promise<Registered> {
  return await bodyOf<Registered>(await register(registration(changes)), 201);
}

async function expectInvalid(changes: Record<string, unknown>): Promise<void> {
  const { details } = await expectError(await register(registration(changes)), 400, 'VALIDATION_ERROR');
  expect(details).toEqual(expect.arrayContaining([expect.stringMatching(/\S/)]));
}

async function countOf(sql: string, value: string): Promise<number> {
  return (await env.DB.prepare(`SELECT count(*) AS n FROM ${sql} = ?`).bind(value).first<number>('n')) ?? 0;
}

describe('registering', () => {
  it('answers 201 with the user and no organization, and no hash anywhere [C-1.4] [C-1.5]', async () => {
    const before = Date.now();
    const email = uniqueEmail();
    const { user, organization } = await registered({ email });
    expect(organization).toBeNull();
    expect(user).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      email,
      name: 'Jana',
      role: null,
      memberships: [],
      lastLoginAt: null,
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    expect(Date.parse(user.createdAt)).toBeGreaterThanOrEqual(before);
  });

  it('with a name and a slug makes the organization too, its maker its ORG_ADMIN [C-1.2] [C-1.4]', async () => {
    const slug = uniqueSlug();
    const { user, organization } = await registered({ organizationName: 'Acme', organizationSlug: slug });
    expect(organization).toMatchObject({ name: 'Acme', slug, role: 'ORG_ADMIN', createdAt: user.createdAt });
    const own = { organizationId: organization?.id, slug, role: 'ORG_ADMIN' };
    expect(user).toMatchObject({ role: 'ORG_ADMIN', memberships: [own] });
    const person = await Person.logIn(user.email);
    expect(await person.read('/auth/me')).toMatchObject({ memberships: [own] });
    const audited = await env.DB.prepare(
      'SELECT event, actor_type, actor, target FROM audit_events WHERE organization_id = ?',
    )
      .bind(organization?.id)
      .all();
    expect(audited.results).toEqual([
      { event: 'organization.created', actor_type: 'USER', actor: user.id, target: organization?.id },
    ]);
  });

  it('opens no session: it answers without a cookie or a token [C-1.4]', async () => {
    const response = await register(registration());
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(Object.keys(await bodyOf<object>(response, 201))).toEqual(['user', 'organization']);
  });

  it('keeps a hash of the password and nothing that is like it [C-1.4]', async () => {
    const { user } = await registered();
    const row = await env.DB.prepare('SELECT * FROM users WHERE id = ?').bind(user.id).first();
    expect(row?.password_hash).toMatch(/^scrypt\$/);
    expect(JSON.stringify(row)).not.toContain(PASSWORD);
  });
});

describe('an e-mail', () => {
  it('is kept in lower case, and taken in whatever case it comes [C-10]', async () => {
    const email = uniqueEmail();
    const { user } = await registered({ email: `X.${email.toUpperCase()}` });
    expect(user.email).toBe(`x.${email}`);
    for (const other of [`x.${email}`, `X.${email}`, `x.${email.toUpperCase()}`]) {
      await expectError(await register(registration({ email: other })), 409, 'EMAIL_ALREADY_REGISTERED');
    }
  });

  it('is given to one of many who come at once [C-10]', async () => {
    const email = uniqueEmail();
    const answers = await Promise.all(Array.from({ length: 6 }, () => register(registration({ email }))));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409]);
    expect(await countOf('users WHERE email', email)).toBe(1);
  });

  it('that is taken leaves no organization behind [C-1.4]', async () => {
    const { user } = await registered();
    const slug = uniqueSlug();
    const body = registration({ email: user.email, organizationName: 'Acme', organizationSlug: slug });
    await expectError(await register(body), 409, 'EMAIL_ALREADY_REGISTERED');
    expect(await countOf('organizations WHERE slug', slug)).toBe(0);
  });

  it('that is none gets 400 [C-1.4]', async () => {
    const texts = ['', 'jana', '@example.org', 'jana@', 'jana@example', 'a b@example.org', 'a@b@example.org'];
    for (const email of [
      ...texts,
      `jana@example.org\n`,
      'jana@example.org, petr@example.org',
      null,
      7,
      [],
      {},
    ]) {
      await expectInvalid({ email });
    }
  });

  it('has at most 254 characters [C-1.4]', async () => {
    const longest = `${crypto.randomUUID()}xxxxx@${'abcdefghi.'.repeat(21)}cz`;
    expect(longest).toHaveLength(254);
    await expectInvalid({ email: `x${longest}` });
    expect((await registered({ email: longest })).user.email).toBe(longest);
  });
});

describe('an organization to register with', () => {
  it('whose slug is taken gets 409, and leaves no user behind [C-1.1] [C-1.4]', async () => {
    const slug = uniqueSlug();
    await registered({ organizationName: 'Acme', organizationSlug: slug });
    const second = registration({ organizationName: 'Other', organizationSlug: slug });
    await expectError(await register(second), 409, 'CONFLICT');
    expect(await countOf('users WHERE email', String(second.email))).toBe(0);
    expect((await registered({ email: second.email })).user.email).toBe(second.email);
  });

  it('has both its name and its slug, or neither [C-1.4]', async () => {
    await expectInvalid({ organizationName: 'Acme' });
    await expectInvalid({ organizationSlug: uniqueSlug() });
    await expectInvalid({ organizationName: null, organizationSlug: null });
  });

  it('has a slug of the one form [C-1.1]', async () => {
    for (const slug of [
      'Acme',
      'a_b',
      '-acme',
      'acme-',
      'a.b',
      'ácme',
      'a'.repeat(41),
      '',
      '*',
      '#',
      'acme\n',
    ]) {
      await expectInvalid({ organizationName: 'Acme', organizationSlug: slug });
    }
  });
});

describe('what a user registers with', () => {
  it('is a password of 10 to 200 characters [C-1.4]', async () => {
    for (const password of ['', 'x'.repeat(9), 'x'.repeat(201), 1_234_567_890, null]) {
      await expectInvalid({ password });
    }
    for (const password of ['x'.repeat(10), 'x'.repeat(200), ' '.repeat(10)]) await registered({ password });
  });

  it('is a name of 1 to 100 characters that is not blank [C-1.4]', async () => {
    for (const name of ['', ' ', '\t\n', 'x'.repeat(101), null, {}]) await expectInvalid({ name });
    expect((await registered({ name: 'x'.repeat(100) })).user.name).toHaveLength(100);
  });

  it('is all there [C-1.4]', async () => {
    for (const name of ['email', 'password', 'name']) await expectInvalid({ [name]: undefined });
    for (const body of [{}, [], null, 'x', 1])
      await expectError(await register(body), 400, 'VALIDATION_ERROR');
    await expectError(await call('/auth/register', { method: 'POST' }), 400, 'VALIDATION_ERROR');
  });

  it('is nothing that is not a client’s to set (bad input: REST)', async () => {
    const { user } = await registered();
    const others = ['id', 'role', 'superAdmin', 'super_admin', 'passwordHash', 'tokenVersion', 'memberships'];
    for (const name of [...others, 'isActive', 'createdAt', 'organizationId', 'constructor']) {
      const body = registration({ [name]: name === 'id' ? user.id : true });
      await expectError(await register(body), 400, 'VALIDATION_ERROR');
      expect([name, await countOf('users WHERE email', String(body.email))]).toEqual([name, 0]);
    }
  });

  it('has no effect by way of __proto__ (bad input: REST)', async () => {
    const hostile = JSON.parse(
      '{"__proto__":{"superAdmin":true,"role":"ORG_ADMIN","organizationName":"x"}}',
    ) as object;
    const body = { ...registration(), ...hostile };
    const response = await register(body);
    expect([201, 400]).toContain(response.status);
    const row = await env.DB.prepare('SELECT super_admin FROM users WHERE email = ?')
      .bind(body.email)
      .first();
    expect(row?.super_admin ?? 0).toBe(0);
    expect(({} as Record<string, unknown>).superAdmin).toBeUndefined();
  });
});
