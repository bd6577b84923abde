/** The session cookie on unsafe methods is taken from our own pages and from no browser at all; a bearer is exempt [C-1.6]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { type Call, call, createTeam, Person, type Team } from '../../support/workerd/people.ts';
import { expectError, send } from '../../support/workerd/rest.ts';

const OWN_ORIGIN = 'https://sitewire.example';

/** What browsers say of a request that another page made. */
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

/** What our own pages say, and what says nothing. */
const OWN: Record<string, string>[] = [
  {},
  { origin: OWN_ORIGIN },
  { 'sec-fetch-site': 'same-origin' },
  { origin: OWN_ORIGIN, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' },
];

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

/** One call of each unsafe method that a path has. */
function unsafeCalls(): [path: string, options: Call][] {
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

describe('an unsafe request with the cookie', () => {
  it('that another page made gets 403 ORIGIN_MISMATCH on every path, and has no effect [C-1.6]', async () => {
    const before = await team.admin.read('/auth/me');
    for (const [path, options] of unsafeCalls()) {
      for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
        const response = await team.orgAdmin.callWithCookie(path, { ...options, headers });
        await expectError(response, 403, 'ORIGIN_MISMATCH');
      }
    }
    expect(await team.admin.read('/auth/me')).toEqual(before);
    expect(await team.orgAdmin.read('/organizations')).toMatchObject({ meta: { total: 1 } });
    expect(await team.orgAdmin.read(`/organizations/${team.id}`)).toMatchObject({ name: team.slug });
  });

  it('is refused for whatever says that another page made it [C-1.6]', async () => {
    for (const headers of FOREIGN) {
      const options = { method: 'PATCH', body: { name: 'Evil' }, headers } as const;
      const { status } = await team.orgAdmin.callWithCookie(`/organizations/${team.id}`, options);
      expect([headers, status]).toEqual([headers, 403]);
    }
  });

  it('passes from our own pages, and where nothing says that a browser sent it [C-1.6]', async () => {
    for (const headers of OWN) {
      const options = { method: 'PATCH', body: { name: 'Acme' }, headers } as const;
      const { status } = await team.orgAdmin.callWithCookie(`/organizations/${team.id}`, options);
      expect([headers, status]).toEqual([headers, 200]);
    }
    await team.orgAdmin.read(`/organizations/${team.id}`, { method: 'PATCH', body: { name: team.slug } });
  });

  it('is not exempt for an Authorization header that is no bearer [C-1.6]', async () => {
    for (const authorization of ['', 'Bearer', 'Bearer ', 'Basic eDp5', 'x']) {
      const headers = { authorization, origin: 'https://evil.example' };
      const options = { method: 'PATCH', body: { name: 'Evil' }, headers } as const;
      const response = await team.orgAdmin.callWithCookie(`/organizations/${team.id}`, options);
      await expectError(response, 403, 'ORIGIN_MISMATCH');
    }
  });

  it('is refused the same way as text/plain, which pages may send unasked [C-1.6]', async () => {
    const { accessToken } = team.orgAdmin;
    const body = JSON.stringify({ name: 'Evil', slug: `evil-${team.slug}` });
    for (const type of ['text/plain', 'text/plain; application/json', 'application/x-www-form-urlencoded']) {
      const headers = { 'content-type': type, cookie: `access_token=${accessToken}` };
      const init = { method: 'POST', body, headers };
      await expectError(await send('/api/v1/organizations', init), 400, 'BAD_REQUEST');
    }
  });

  it('without a session that holds is 401 wherever it comes from [C-1.6]', async () => {
    for (const cookie of ['access_token=x', 'access_token=']) {
      const options = { method: 'POST', headers: { cookie, origin: 'https://evil.example' } } as const;
      await expectError(await call('/auth/logout', options), 401, 'UNAUTHORIZED');
    }
  });
});

describe('a safe request with the cookie', () => {
  it('passes from anywhere, but nobody else’s page may read its answer [C-1.6]', async () => {
    for (const headers of [...FOREIGN, ...OWN]) {
      const response = await team.viewer.callWithCookie('/auth/me', { headers });
      expect([headers, response.status]).toEqual([headers, 200]);
      const allowed = [...response.headers.keys()].filter((name) => name.startsWith('access-control-'));
      expect(allowed).toEqual([]);
      expect(response.headers.get('cache-control')).toBe('no-store');
    }
  });
});

describe('a bearer', () => {
  it('is exempt, alone and with the cookie beside it [C-1.6]', async () => {
    for (const headers of FOREIGN) {
      const cookie = `access_token=${team.orgAdmin.accessToken}`;
      for (const own of [headers, { ...headers, cookie }]) {
        const options = { method: 'PATCH', body: {}, headers: own } as const;
        expect((await team.orgAdmin.call(`/organizations/${team.id}`, options)).status).toBe(200);
      }
    }
  });

  it('is who one is, when the cookie says another [C-1.6]', async () => {
    const cookie = `access_token=${team.orgAdmin.accessToken}`;
    const me = await team.viewer.read('/auth/me', { headers: { cookie } });
    expect(me).toMatchObject({ user: { id: team.viewer.id } });
    const wrong = { authorization: 'Bearer x' };
    await expectError(await team.viewer.callWithCookie('/auth/me', { headers: wrong }), 401, 'UNAUTHORIZED');
  });
});

describe('what needs no session', () => {
  it('is open to any origin: the cookie plays no part in it [C-1.6]', async () => {
    const person = await Person.register();
    const headers = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
    const body = { refreshToken: person.refreshToken };
    const response = await team.viewer.callWithCookie('/auth/refresh', { method: 'POST', body, headers });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ user: { id: person.id } });
  });
});
