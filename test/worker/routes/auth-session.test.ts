/** A session while it lasts: whom it shows, and how it ends [C-1.4]. */
import { anonymous, bodyOf } from '#workerd/client.ts';
import { refresh } from '#workerd/people.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';

describe('GET /auth/me', () => {
  it('a user sees every membership and no hash [C-1.4] [C-1.5]', async ({ team }) => {
    const memberships = [{ organizationId: team.id, slug: team.slug, role: 'ADMIN' }];
    expect(await team.admin.read('/auth/me')).toEqual({
      user: {
        id: team.admin.id,
        email: team.admin.email,
        name: 'Test Person',
        role: 'ADMIN',
        memberships,
        lastLoginAt: expect.any(String),
        createdAt: expect.any(String),
      },
      memberships,
    });
  });

  it('a user without a membership sees no role and no memberships [C-1.4]', async ({ person }) => {
    expect(await person.read('/auth/me')).toMatchObject({
      user: { id: person.id, role: null, memberships: [] },
      memberships: [],
    });
  });

  it('the role is that in the organization of x-org-id, and null for one without a membership [C-1.5]', async ({
    team,
    other,
  }) => {
    await other.join(team.viewer, 'OPERATOR');
    const role = async (org?: string) => {
      const options = org === undefined ? {} : { org };
      return (await team.viewer.read<{ user: { role: string | null } }>('/auth/me', options)).user.role;
    };
    expect(await role()).toBeNull();
    expect([await role(team.id), await role(other.id)]).toEqual(['VIEWER', 'OPERATOR']);
    expect(await role(other.id.toUpperCase())).toBe('OPERATOR');
    for (const org of [crypto.randomUUID(), 'x', '__proto__']) expect(await role(org)).toBeNull();
    const { memberships } = await team.viewer.read<{ memberships: { slug: string }[] }>('/auth/me');
    expect(memberships.map(({ slug }) => slug)).toEqual([team.slug, other.slug].sort());
  });

  it('the access token is accepted in the cookie or as a bearer token, and nowhere else; an API key is not accepted (spec: Other REST surface)', async ({
    team,
  }) => {
    const { accessToken } = team.operator;
    const partner = await team.newKey();
    const { key } = partner;
    expect((await partner.call('/vcp/sites')).status).toBe(200);
    const right = [
      { authorization: `Bearer ${accessToken}` },
      { authorization: `bearer   ${accessToken}` },
      { cookie: `access_token=${accessToken}` },
      { cookie: `theme=dark; access_token=${accessToken}; x=y` },
    ];
    for (const headers of right) expect((await anonymous.call('/auth/me', { headers })).status).toBe(200);
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
      { 'x-api-key': key },
      { authorization: `Bearer ${key}` },
      { cookie: `access_token=${key}` },
    ];
    for (const headers of wrong)
      await expectError(await anonymous.call('/auth/me', { headers }), 401, 'UNAUTHORIZED');
    await expectError(await anonymous.call(`/auth/me?access_token=${accessToken}`), 401, 'UNAUTHORIZED');
  });
});

describe('POST /auth/logout', () => {
  it('a logout ends the session’s access and refresh tokens immediately [C-1.4]', async ({ person }) => {
    expect(await person.read('/auth/logout', { method: 'POST' })).toEqual({ success: true });
    for (const path of ['/auth/me', '/organizations']) {
      await expectError(await person.call(path), 401, 'UNAUTHORIZED');
      await expectError(await person.callWithCookie(path), 401, 'UNAUTHORIZED');
    }
    await expectError(await person.post('/auth/logout'), 401, 'UNAUTHORIZED');
    await expectError(await refresh(person.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
  });

  it('a logout deletes the cookies of the session, with Max-Age=0 and Path=/ (spec: POST /auth/logout)', async ({
    person,
  }) => {
    const response = await person.callWithCookie('/auth/logout', { method: 'POST' });
    const cookies = response.headers.getSetCookie();
    expect(await bodyOf(response, 200)).toEqual({ success: true });
    expect(cookies).toHaveLength(2);
    const [pair, ...attributes] = (cookies[0] ?? '').split('; ');
    expect(pair).toBe('access_token=');
    expect(attributes).toEqual(expect.arrayContaining(['Max-Age=0', 'Path=/']));
  });

  it('a logout ends no other session [C-1.4]', async ({ team, person }) => {
    const elsewhere = await person.newSession();
    await person.read('/auth/logout', { method: 'POST' });
    expect((await elsewhere.call('/auth/me')).status).toBe(200);
    expect((await team.admin.call('/auth/me')).status).toBe(200);
  });

  it('makes, of many requests, those that start after it get 401 [C-1.4]', async ({ person }) => {
    const during = Array.from({ length: 10 }, () => person.call('/auth/me'));
    await person.read('/auth/logout', { method: 'POST' });
    const after = await Promise.all(Array.from({ length: 10 }, () => person.call('/auth/me')));
    expect(after.map(({ status }) => status)).toEqual(after.map(() => 401));
    for (const { status } of await Promise.all(during)) expect([200, 401]).toContain(status);
  });

  it('a logout without a session gets 401 [C-1.4]', async () => {
    const response = await anonymous.post('/auth/logout');
    expect(response.headers.get('set-cookie')).toBeNull();
    await expectError(response, 401, 'UNAUTHORIZED');
  });
});

describe('a wrong method', () => {
  it('gets 405 with Allow, or 401 without the session that the path needs [C-10]', async ({ team }) => {
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
    await expectError(await anonymous.post('/auth/me'), 401, 'UNAUTHORIZED');
  });
});
