/** A session while it lasts: who it says one is, and how it ends at once [C-1.4]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { bodyOf, call, createTeam, Person, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

describe('GET /auth/me', () => {
  it('shows the user and every membership, and no hash [C-1.4] [C-1.5]', async () => {
    const memberships = [{ organizationId: team.id, slug: team.slug, role: 'ADMIN' }];
    expect(await team.admin.read('/auth/me')).toEqual({
      user: {
        id: team.admin.id,
        email: team.admin.email,
        name: 'Somebody',
        role: 'ADMIN',
        memberships,
        lastLoginAt: expect.any(String),
        createdAt: expect.any(String),
      },
      memberships,
    });
  });

  it('shows nobody’s membership to who has none [C-1.4]', async () => {
    const person = await Person.register();
    expect(await person.read('/auth/me')).toMatchObject({
      user: { id: person.id, role: null, memberships: [] },
      memberships: [],
    });
  });

  it('shows the role in the organization that the header names, none in a foreign one [C-1.5]', async () => {
    const other = await createTeam();
    const body = { email: team.viewer.email, role: 'OPERATOR' };
    await other.orgAdmin.read(`/organizations/${other.id}/members`, { method: 'POST', body }, 201);
    const role = async (org?: string) => {
      const options = org === undefined ? {} : { org };
      return (await team.viewer.read<{ user: { role: string | null } }>('/auth/me', options)).user.role;
    };
    expect(await role()).toBeNull();
    expect([await role(team.id), await role(other.id)]).toEqual(['VIEWER', 'OPERATOR']);
    expect(await role(other.id.toUpperCase())).toBe('OPERATOR');
    expect([await role(crypto.randomUUID()), await role('x'), await role('__proto__')]).toEqual([
      null,
      null,
      null,
    ]);
    const { memberships } = await team.viewer.read<{ memberships: { slug: string }[] }>('/auth/me');
    expect(memberships.map(({ slug }) => slug)).toEqual([team.slug, other.slug].sort());
  });

  it('is for who has a session, in the cookie or as the bearer, and not for a key (spec: Other REST surface)', async () => {
    const { accessToken } = team.operator;
    const right = [
      { authorization: `Bearer ${accessToken}` },
      { authorization: `bearer   ${accessToken}` },
      { cookie: `access_token=${accessToken}` },
      { cookie: `theme=dark; access_token=${accessToken}; x=y` },
    ];
    for (const headers of right) expect((await call('/auth/me', { headers })).status).toBe(200);
    const wrong = [
      {},
      { authorization: accessToken },
      { authorization: `Basic ${accessToken}` },
      { authorization: `Bearer ${accessToken} x` },
      { authorization: 'Bearer ' },
      { cookie: `access-token=${accessToken}` },
      { cookie: 'access_token=' },
      { 'x-api-key': accessToken },
      { 'x-access-token': accessToken },
    ];
    for (const headers of wrong) await expectError(await call('/auth/me', { headers }), 401, 'UNAUTHORIZED');
    await expectError(await call(`/auth/me?access_token=${accessToken}`), 401, 'UNAUTHORIZED');
  });
});

describe('POST /auth/logout', () => {
  it('ends the session at once: its access tokens and its refresh token [C-1.4]', async () => {
    const person = await Person.register();
    expect(await person.read('/auth/logout', { method: 'POST' })).toEqual({ success: true });
    for (const path of ['/auth/me', '/organizations']) {
      await expectError(await person.call(path), 401, 'UNAUTHORIZED');
      await expectError(await person.callWithCookie(path), 401, 'UNAUTHORIZED');
    }
    await expectError(await person.call('/auth/logout', { method: 'POST' }), 401, 'UNAUTHORIZED');
    const body = { refreshToken: person.refreshToken };
    await expectError(await call('/auth/refresh', { method: 'POST', body }), 401, 'REFRESH_TOKEN_REVOKED');
  });

  it('clears the cookie on the path that it was set for (spec: POST /auth/logout)', async () => {
    const person = await Person.register();
    const response = await person.callWithCookie('/auth/logout', { method: 'POST' });
    const cookies = response.headers.getSetCookie();
    expect(await bodyOf(response, 200)).toEqual({ success: true });
    expect(cookies).toHaveLength(1);
    const [pair, ...attributes] = (cookies[0] ?? '').split('; ');
    expect(pair).toBe('access_token=');
    expect(attributes).toEqual(expect.arrayContaining(['Max-Age=0', 'Path=/']));
  });

  it('ends no other session [C-1.4]', async () => {
    const person = await Person.register();
    const elsewhere = await Person.logIn(person.email);
    await person.read('/auth/logout', { method: 'POST' });
    expect((await elsewhere.call('/auth/me')).status).toBe(200);
    expect((await team.admin.call('/auth/me')).status).toBe(200);
  });

  it('of one among many requests leaves none of those after it in [C-1.4]', async () => {
    const person = await Person.register();
    const during = Array.from({ length: 10 }, () => person.call('/auth/me'));
    await person.read('/auth/logout', { method: 'POST' });
    const after = await Promise.all(Array.from({ length: 10 }, () => person.call('/auth/me')));
    expect(after.map(({ status }) => status)).toEqual(after.map(() => 401));
    for (const { status } of await Promise.all(during)) expect([200, 401]).toContain(status);
  });

  it('needs a session [C-1.4]', async () => {
    const response = await call('/auth/logout', { method: 'POST' });
    expect(response.headers.get('set-cookie')).toBeNull();
    await expectError(response, 401, 'UNAUTHORIZED');
  });
});

describe('a method that a path of a session does not have', () => {
  it('gets 405 with the envelope, behind the path’s door [C-10]', async () => {
    const wrong = [
      ['GET', '/auth/login', 'POST'],
      ['DELETE', '/auth/register', 'POST'],
      ['PUT', '/auth/refresh', 'POST'],
      ['GET', '/auth/logout', 'POST'],
      ['POST', '/auth/me', 'GET, HEAD'],
      ['PATCH', '/auth/change-password', 'POST'],
    ] as const;
    for (const [method, path, allowed] of wrong) {
      const response = await team.viewer.call(path, { method });
      expect([path, response.headers.get('allow')]).toEqual([path, allowed]);
      await expectError(response, 405, 'BAD_REQUEST');
    }
    await expectError(await call('/auth/me', { method: 'POST' }), 401, 'UNAUTHORIZED');
  });
});
