/**
 * On unsafe methods the session cookie is accepted from our own pages and from clients that are no browsers.
 * A bearer token is accepted from everywhere [C-1.6].
 */
import { anonymous, type Call } from '#workerd/client.ts';
import { logIn, Person } from '#workerd/people.ts';
import { send } from '#workerd/rest.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';

const OWN_ORIGIN = 'https://sitewire.example';

/** Headers that browsers send with a request of another page. */
const FOREIGN: Record<string, string>[] = [
  { origin: 'https://evil.example' },
  { origin: 'null' },
  { origin: 'http://sitewire.example' },
  { origin: 'https://sitewire.example:8443' },
  { origin: 'https://sitewire.example.evil.example' },
  { origin: 'https://evil.sitewire.example' },
  { origin: 'https://sitewire.example@evil.example' },
  { origin: `${OWN_ORIGIN}, https://evil.example` },
  { origin: `${OWN_ORIGIN}/` },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
  { 'sec-fetch-site': 'none' },
  { origin: OWN_ORIGIN, 'sec-fetch-site': 'cross-site' },
  { origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' },
];

/** Headers of our own pages, and of clients that are no browsers. */
const OWN: Record<string, string>[] = [
  {},
  { origin: OWN_ORIGIN },
  { 'sec-fetch-site': 'same-origin' },
  { origin: OWN_ORIGIN, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' },
];

/** One call of each unsafe method that a path has. */
function unsafeCalls(team: Team): [path: string, options: Call][] {
  const own = `/organizations/${team.id}`;
  const role = { role: 'VIEWER' };
  return [
    ['/auth/logout', { method: 'POST' }],
    [
      '/auth/change-password',
      { method: 'POST', body: { currentPassword: 'x', newPassword: 'x'.repeat(10) } },
    ],
    ['/organizations', { method: 'POST', body: { name: 'Evil', slug: `evil-${team.slug}` } }],
    [own, { method: 'PATCH', body: { name: 'Evil' } }],
    [`${own}/members`, { method: 'POST', body: { email: team.viewer.email, ...role } }],
    [`${own}/members/${team.admin.id}`, { method: 'PATCH', body: role }],
    [`${own}/members/${team.admin.id}`, { method: 'DELETE' }],
    [`/users/${team.admin.id}`, { method: 'PATCH', body: role, org: team.id }],
    [own, { method: 'PUT', body: {} }],
  ];
}

/** Renames the organization with the cookie of its ORG_ADMIN. */
const it = test.extend('rename', ({ team }) => (name: string, headers: Record<string, string>) => {
  const options = { method: 'PATCH', body: { name }, headers } as const;
  return team.orgAdmin.callWithCookie(`/organizations/${team.id}`, options);
});

describe('an unsafe request with the cookie', () => {
  it('from a page of another origin gets 403 ORIGIN_MISMATCH and has no effect [C-1.6]', async ({ team }) => {
    const before = await team.admin.read('/auth/me');
    for (const [path, options] of unsafeCalls(team)) {
      for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
        const response = await team.orgAdmin.callWithCookie(path, { ...options, headers });
        await expectError(response, 403, 'ORIGIN_MISMATCH');
      }
    }
    expect(await team.admin.read('/auth/me')).toEqual(before);
    expect(await team.orgAdmin.read('/organizations')).toMatchObject({ meta: { total: 1 } });
    expect(await team.orgAdmin.read(`/organizations/${team.id}`)).toMatchObject({ name: team.slug });
  });

  it('gets 403 for any Origin or Sec-Fetch-Site other than our own pages’ [C-1.6]', async ({ rename }) => {
    for (const headers of FOREIGN) {
      expect([headers, (await rename('Evil', headers)).status]).toEqual([headers, 403]);
    }
  });

  it('is accepted from our own pages and clients that are no browsers [C-1.6]', async ({ team, rename }) => {
    for (const headers of OWN) {
      expect([headers, (await rename('Acme', headers)).status]).toEqual([headers, 200]);
    }
    await team.orgAdmin.change(`/organizations/${team.id}`, { name: team.slug });
  });

  it('from another origin gets 403 despite an invalid Authorization header [C-1.6]', async ({ rename }) => {
    for (const authorization of ['', 'Bearer', 'Bearer ', 'Basic eDp5', 'x']) {
      const headers = { authorization, origin: 'https://evil.example' };
      await expectError(await rename('Evil', headers), 403, 'ORIGIN_MISMATCH');
    }
  });

  it('gets 400 with text/plain, which pages may send without a preflight [C-1.6]', async ({ team }) => {
    const { accessToken } = team.orgAdmin;
    const body = JSON.stringify({ name: 'Evil', slug: `evil-${team.slug}` });
    for (const type of ['text/plain', 'text/plain; application/json', 'application/x-www-form-urlencoded']) {
      const headers = { 'content-type': type, cookie: `access_token=${accessToken}` };
      const init = { method: 'POST', body, headers };
      await expectError(await send('/api/v1/organizations', init), 400, 'BAD_REQUEST');
    }
  });

  it('gets 401 with an invalid session, also from another origin [C-1.6]', async () => {
    for (const cookie of ['access_token=x', 'access_token=']) {
      const headers = { cookie, origin: 'https://evil.example' };
      await expectError(await anonymous.post('/auth/logout', undefined, { headers }), 401, 'UNAUTHORIZED');
    }
  });
});

describe('a safe request with the cookie', () => {
  it('is answered from any page, which cannot read the answer [C-1.6]', async ({ team }) => {
    for (const headers of [...FOREIGN, ...OWN]) {
      const response = await team.viewer.callWithCookie('/auth/me', { headers });
      expect([headers, response.status]).toEqual([headers, 200]);
      const allowed = [...response.headers.keys()].filter((name) => name.startsWith('access-control-'));
      expect(allowed).toEqual([]);
      expect(response.headers.get('cache-control')).toBe('no-store');
    }
  });
});

describe('a bearer token', () => {
  it('is accepted from every origin, with and without the cookie [C-1.6]', async ({ team }) => {
    for (const headers of FOREIGN) {
      const cookie = `access_token=${team.orgAdmin.accessToken}`;
      for (const own of [headers, { ...headers, cookie }]) {
        const response = await team.orgAdmin.patch(`/organizations/${team.id}`, {}, { headers: own });
        expect(response.status).toBe(200);
      }
    }
  });

  it('decides who the user is: an invalid one gets 401, despite a valid cookie [C-1.6]', async ({ team }) => {
    const cookie = `access_token=${team.orgAdmin.accessToken}`;
    const me = await team.viewer.read('/auth/me', { headers: { cookie } });
    expect(me).toMatchObject({ user: { id: team.viewer.id } });
    const wrong = { authorization: 'Bearer x' };
    await expectError(await team.viewer.callWithCookie('/auth/me', { headers: wrong }), 401, 'UNAUTHORIZED');
  });
});

describe('a request that needs no session', () => {
  it('may come from any origin, also with the cookie of another user [C-1.6]', async ({ team, person }) => {
    const headers = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
    const body = { refreshToken: person.refreshToken };
    const response = await team.viewer.callWithCookie('/auth/refresh', { method: 'POST', body, headers });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ user: { id: person.id } });
  });
});

describe('the cookie of the refresh token', () => {
  const PATH = '/api/v1/auth/refresh';

  /** The cookies of a login. */
  async function cookies(): Promise<Record<string, string>> {
    const { email } = await Person.register();
    const response = await logIn(email);
    await response.text();
    return Object.fromEntries(
      response.headers.getSetCookie().map((text) => [text.split('=')[0] ?? '', text] as const),
    );
  }

  function refresh(cookie: string, headers: Record<string, string> = {}, body = '{}') {
    const all = { 'content-type': 'application/json', cookie: cookie.split(';')[0] ?? '', ...headers };
    return send(PATH, { method: 'POST', headers: all, body });
  }

  it('cannot be read by scripts, and is sent only to its path and from our own pages', async () => {
    const { refresh_token: set = '' } = await cookies();
    for (const part of ['HttpOnly', 'Secure', 'SameSite=Strict', `Path=${PATH}`]) expect(set).toContain(part);
  });

  it('refreshes the session once, and is replaced', async () => {
    const { refresh_token: first = '' } = await cookies();
    const renewed = await refresh(first, { origin: OWN_ORIGIN });
    expect(renewed.status).toBe(200);
    // A script of the page must not get a token out of it.
    expect(await renewed.text()).not.toMatch(/accessToken|refreshToken/);
    const names = renewed.headers.getSetCookie().map((text) => text.split('=')[0]);
    expect(names.sort()).toEqual(['access_token', 'refresh_token']);
    await expectError(await refresh(first), 401, 'REFRESH_TOKEN_REVOKED');
  });

  it('from a page of another origin gets 403 and counts as not used', async () => {
    const { refresh_token: set = '' } = await cookies();
    for (const headers of FOREIGN) await expectError(await refresh(set, headers), 403, 'ORIGIN_MISMATCH');
    const answer = await refresh(set);
    expect(answer.status).toBe(200);
    await answer.text();
  });

  it('does not count where the body has a token, and without both the request gets 400', async () => {
    const { refresh_token: set = '' } = await cookies();
    await expectError(await refresh(set, {}, '{"refreshToken":"x"}'), 401, 'REFRESH_TOKEN_INVALID');
    await expectError(await refresh('', {}, '{}'), 400, 'VALIDATION_ERROR');
    await expectError(await refresh('refresh_token=x', {}, '{}'), 401, 'REFRESH_TOKEN_INVALID');
  });

  it('ends with the logout', async () => {
    const { refresh_token: set = '', access_token: access = '' } = await cookies();
    const out = await send('/api/v1/auth/logout', {
      ...{ method: 'POST', headers: { cookie: access.split(';')[0] ?? '' } },
    });
    expect(out.status).toBe(200);
    await out.text();
    expect(out.headers.getSetCookie().map((text) => text.split(';')[0])).toEqual([
      'access_token=',
      'refresh_token=',
    ]);
    await expectError(await refresh(set), 401, 'REFRESH_TOKEN_REVOKED');
  });
});
