/** POST /auth/register makes a user, with or without an organization, or nothing [C-1.4]. */
import { describe, expect, it } from 'vitest';
import { anonymous, bodyOf } from '#workerd/client.ts';
import { countOf, rowsFrom } from '#workerd/d1.ts';
import { auditRows } from '#workerd/door.ts';
import { PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import { expectError } from '#workerd/rest.ts';
import { uniqueSlug } from '#workerd/team.ts';
import { INSTANT, UUID } from '#workerd/worker-test.ts';
import type { OrganizationRecord } from '../../../protocol/organization.ts';
import type { UserRecord } from '../../../protocol/user.ts';

interface Registered {
  user: UserRecord;
  organization: OrganizationRecord | null;
}

function registrationOf(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return { email: uniqueEmail(), password: PASSWORD, name: 'Jana', ...changes };
}

function register(body: unknown): Promise<Response> {
  return anonymous.post('/auth/register', body);
}

async function registered(changes: Record<string, unknown> = {}): Promise<Registered> {
  return await anonymous.create('/auth/register', registrationOf(changes));
}

async function expectInvalid(changes: Record<string, unknown>): Promise<void> {
  const { details } = await expectError(await register(registrationOf(changes)), 400, 'VALIDATION_ERROR');
  expect(details).toEqual(expect.arrayContaining([expect.stringMatching(/\S/)]));
}

describe('registering', () => {
  it('a registration answers 201 with the user and without a hash [C-1.4] [C-1.5]', async () => {
    const before = Date.now();
    const email = uniqueEmail();
    const { user, organization } = await registered({ email });
    expect(organization).toBeNull();
    expect(user).toEqual({
      id: UUID,
      email,
      name: 'Jana',
      role: null,
      memberships: [],
      lastLoginAt: null,
      createdAt: INSTANT,
    });
    expect(Date.parse(user.createdAt)).toBeGreaterThanOrEqual(before);
  });

  it('a registration with an organization’s name and slug creates it, with the user as ORG_ADMIN [C-1.2] [C-1.4]', async () => {
    const slug = uniqueSlug();
    const { user, organization } = await registered({ organizationName: 'Acme', organizationSlug: slug });
    expect(organization).toMatchObject({ name: 'Acme', slug, role: 'ORG_ADMIN', createdAt: user.createdAt });
    const own = { organizationId: organization?.id, slug, role: 'ORG_ADMIN' };
    expect(user).toMatchObject({ role: 'ORG_ADMIN', memberships: [own] });
    const person = await Person.logIn(user.email);
    expect(await person.read('/auth/me')).toMatchObject({ memberships: [own] });
    const [made] = await auditRows(organization?.id ?? '');
    expect([made]).toMatchObject([
      { event: 'organization.created', actor_type: 'USER', actor: user.id, target: organization?.id },
    ]);
  });

  it('a registration opens no session [C-1.4]', async () => {
    const response = await register(registrationOf());
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(Object.keys(await bodyOf<object>(response, 201))).toEqual(['user', 'organization']);
  });

  it('only a hash of the password is stored [C-1.4]', async () => {
    const { user } = await registered();
    const [row] = await rowsFrom<{ password_hash: string }>('SELECT * FROM users WHERE id = ?', user.id);
    expect(row?.password_hash).toMatch(/^scrypt\$/);
    expect(JSON.stringify(row)).not.toContain(PASSWORD);
  });
});

describe('an e-mail', () => {
  it('is stored in lower case; a second registration with it in any case gets 409 [C-10]', async () => {
    const email = uniqueEmail();
    const { user } = await registered({ email: `X.${email.toUpperCase()}` });
    expect(user.email).toBe(`x.${email}`);
    for (const other of [`x.${email}`, `X.${email}`, `x.${email.toUpperCase()}`]) {
      await expectError(await register(registrationOf({ email: other })), 409, 'EMAIL_ALREADY_REGISTERED');
    }
  });

  it('is registered by one of many concurrent requests, and the others get 409 [C-10]', async () => {
    const email = uniqueEmail();
    const answers = await Promise.all(Array.from({ length: 6 }, () => register(registrationOf({ email }))));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409]);
    expect(await countOf('users', 'email = ?', email)).toBe(1);
  });

  it('gets 409 if it is taken, and the organization of the request is not made [C-1.4]', async () => {
    const { user } = await registered();
    const slug = uniqueSlug();
    const body = registrationOf({ email: user.email, organizationName: 'Acme', organizationSlug: slug });
    await expectError(await register(body), 409, 'EMAIL_ALREADY_REGISTERED');
    expect(await countOf('organizations', 'slug = ?', slug)).toBe(0);
  });

  it('gets 400 if it is malformed [C-1.4]', async () => {
    const texts = ['', 'jana', '@example.org', 'jana@', 'jana@example', 'a b@example.org', 'a@b@example.org'];
    const others = [`jana@example.org\n`, 'jana@example.org, petr@example.org', null, 7, [], {}];
    for (const email of [...texts, ...others]) await expectInvalid({ email });
  });

  it('may have 254 characters, and gets 400 with more [C-1.4]', async () => {
    const longest = `${crypto.randomUUID()}xxxxx@${'abcdefghi.'.repeat(21)}cz`;
    expect(longest).toHaveLength(254);
    await expectInvalid({ email: `x${longest}` });
    expect((await registered({ email: longest })).user.email).toBe(longest);
  });
});

describe('the organization of a registration', () => {
  it('a registration with a taken slug gets 409 and creates no user [C-1.1] [C-1.4]', async () => {
    const slug = uniqueSlug();
    await registered({ organizationName: 'Acme', organizationSlug: slug });
    const second = registrationOf({ organizationName: 'Other', organizationSlug: slug });
    await expectError(await register(second), 409, 'CONFLICT');
    expect(await countOf('users', 'email = ?', String(second.email))).toBe(0);
    expect((await registered({ email: second.email })).user.email).toBe(second.email);
  });

  it('needs a name and a slug: one without the other gets 400 [C-1.4]', async () => {
    await expectInvalid({ organizationName: 'Acme' });
    await expectInvalid({ organizationSlug: uniqueSlug() });
    await expectInvalid({ organizationName: null, organizationSlug: null });
  });

  it('gets 400 if its slug has other than lower-case letters, digits and inner hyphens, or over 40 [C-1.1]', async () => {
    const wrong = ['Acme', 'a_b', '-acme', 'acme-', 'a.b', 'ácme', 'a'.repeat(41), '', '*', '#', 'acme\n'];
    for (const slug of wrong) await expectInvalid({ organizationName: 'Acme', organizationSlug: slug });
  });
});

describe('the fields of a registration', () => {
  it('a password gets 400 unless it has 10 to 200 characters [C-1.4]', async () => {
    for (const password of ['', 'x'.repeat(9), 'x'.repeat(201), 1_234_567_890, null]) {
      await expectInvalid({ password });
    }
    for (const password of ['x'.repeat(10), 'x'.repeat(200), ' '.repeat(10)]) await registered({ password });
  });

  it('one of the most common passwords gets 400, in upper or lower case [C-14.7]', async () => {
    for (const password of ['1234567890', 'Password123', 'QWERTYUIOP', 'basketball']) {
      await expectInvalid({ password });
    }
    await registered({ password: 'basketball 7' });
  });

  it('a name gets 400 if it is blank or has more than 100 characters [C-1.4]', async () => {
    for (const name of ['', ' ', '\t\n', 'x'.repeat(101), null, {}]) await expectInvalid({ name });
    expect((await registered({ name: 'x'.repeat(100) })).user.name).toHaveLength(100);
  });

  it('email, password and name are required: a body without one of them gets 400 [C-1.4]', async () => {
    for (const name of ['email', 'password', 'name']) await expectInvalid({ [name]: undefined });
    for (const body of [{}, [], null, 'x', 1])
      await expectError(await register(body), 400, 'VALIDATION_ERROR');
    await expectError(await anonymous.post('/auth/register'), 400, 'VALIDATION_ERROR');
  });

  it('fields that a client cannot set get 400, and no user is made (bad input: REST)', async () => {
    const { user } = await registered();
    const others = ['id', 'role', 'superAdmin', 'super_admin', 'passwordHash', 'tokenVersion', 'memberships'];
    for (const name of [...others, 'isActive', 'createdAt', 'organizationId', 'constructor']) {
      const body = registrationOf({ [name]: name === 'id' ? user.id : true });
      await expectError(await register(body), 400, 'VALIDATION_ERROR');
      expect([name, await countOf('users', 'email = ?', String(body.email))]).toEqual([name, 0]);
    }
  });

  it('a __proto__ in the body gets 400, makes no user and changes no prototype (bad input: REST)', async () => {
    const hostile = '{"__proto__":{"superAdmin":true,"role":"ORG_ADMIN","organizationName":"x"}}';
    const body = { ...registrationOf(), ...(JSON.parse(hostile) as object) };
    expect(Object.keys(body)).toContain('__proto__');
    await expectError(await register(body), 400, 'VALIDATION_ERROR');
    expect(await countOf('users', 'email = ?', String(body.email))).toBe(0);
    for (const name of ['superAdmin', 'role', 'organizationName']) expect(name in {}).toBe(false);
  });
});
