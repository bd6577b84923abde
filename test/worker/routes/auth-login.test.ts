/** POST /auth/login: tokens of a new session for the right password, one refusal for everything else [C-1.4]. */
import { env } from 'cloudflare:workers';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { vi } from 'vitest';
import { anonymous, bodyOf } from '#workerd/client.ts';
import { countOf, valueFrom } from '#workerd/d1.ts';
import { logIn, PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import { send } from '#workerd/rest.ts';
import { uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { findSession, openSession } from '../../../registry/sessions.ts';

const MOST_SESSIONS = 100;

describe('a right login', () => {
  it('returns the user, a bearer token for 15 minutes and a refresh token [C-1.4]', async ({ team }) => {
    const before = Date.now();
    const answer = await bodyOf<LoginAnswer>(await logIn(team.operator.email), 200);
    expect(answer).toEqual({
      user: {
        id: team.operator.id,
        email: team.operator.email,
        name: 'Test Person',
        role: 'OPERATOR',
        memberships: [{ organizationId: team.id, slug: team.slug, role: 'OPERATOR' }],
        lastLoginAt: expect.any(String),
        createdAt: expect.any(String),
      },
      accessToken: expect.any(String),
      tokenType: 'Bearer',
      expiresIn: 900,
      refreshToken: expect.any(String),
    });
    expect(Date.parse(answer.user.lastLoginAt ?? '')).toBeGreaterThanOrEqual(before);
    const headers = { authorization: `Bearer ${answer.accessToken}` };
    expect(await anonymous.read('/auth/me', { headers })).toMatchObject({ user: answer.user });
  });

  it('sets a cookie with the same token, HttpOnly, Secure, SameSite=Lax and Path=/ [C-1.4]', async ({
    team,
  }) => {
    const response = await logIn(team.viewer.email);
    const cookies = response.headers.getSetCookie();
    const { accessToken } = await bodyOf<LoginAnswer>(response, 200);
    const [known = '', access = '', refresh = '', ...others] = cookies;
    expect(others).toEqual([]);
    expect(refresh).toMatch(/^refresh_token=/);
    expect(known).toMatch(/^known_browser=.*; HttpOnly; Secure; SameSite=Lax$/);
    const [pair, ...attributes] = access.split('; ');
    expect(pair).toBe(`access_token=${accessToken}`);
    expect(attributes.sort()).toEqual(['HttpOnly', 'Max-Age=900', 'Path=/', 'SameSite=Lax', 'Secure']);
  });

  it('returns an access token that names the user, the session and the token version [C-1.4]', async ({
    team,
  }) => {
    const { accessToken } = await Person.logIn(team.viewer.email);
    const { iat = 0, ...claims } = decodeJwt(accessToken);
    expect(decodeProtectedHeader(accessToken)).toEqual({ alg: 'HS256' });
    expect(claims).toEqual({
      iss: 'sitewire',
      aud: 'rest',
      sub: team.viewer.id,
      sid: expect.any(String),
      ver: 1,
      exp: iat + 900,
    });
  });

  it('replaces a password hash of lower cost with one of full cost; a wrong login does not [C-14.7]', async ({
    person,
  }) => {
    const stored = () => valueFrom('SELECT password_hash FROM users WHERE id = ?', person.id);
    expect(await stored()).toMatch(/^scrypt\$2\$/);
    await expectError(await logIn(person.email, 'not my password'), 401, 'INVALID_CREDENTIALS');
    expect(await stored()).toMatch(/^scrypt\$2\$/);
    expect((await logIn(person.email)).status).toBe(200);
    const renewed = await stored();
    expect(renewed).toMatch(/^scrypt\$32768\$8\$3\$/);
    expect((await logIn(person.email)).status).toBe(200);
    expect(await stored()).toBe(renewed);
  });

  it('opens a session of its own [C-1.4]', async ({ team }) => {
    const both = [await Person.logIn(team.viewer.email), await Person.logIn(team.viewer.email)];
    const sessions = both.map(({ accessToken }) => decodeJwt(accessToken).sid);
    expect(new Set(sessions).size).toBe(2);
    for (const person of both) expect((await person.call('/auth/me')).status).toBe(200);
  });

  it('succeeds with the e-mail in upper case, too [C-1.4]', async ({ team }) => {
    expect((await logIn(team.admin.email.toUpperCase())).status).toBe(200);
  });

  it('returns a role only if the user has exactly one membership [C-1.3] [C-1.5]', async ({ person }) => {
    const role = async () => (await bodyOf<LoginAnswer>(await logIn(person.email), 200)).user.role;
    expect(await role()).toBeNull();
    for (const expected of ['ORG_ADMIN', null]) {
      const slug = uniqueSlug();
      await person.create('/organizations', { name: slug, slug });
      expect(await role()).toBe(expected);
    }
  });
});

describe('a wrong login', () => {
  it('gets the same 401 INVALID_CREDENTIALS, also for an unknown e-mail or a user without a password [C-1.4]', async ({
    team,
    rows,
  }) => {
    const { email } = await rows.insert('users', { password_hash: null });
    const wrong = [
      await logIn(team.viewer.email, 'not my password'),
      await logIn(team.viewer.email, ''),
      await logIn(team.viewer.email, PASSWORD.toUpperCase()),
      await logIn(team.viewer.email, ` ${PASSWORD}`),
      await logIn(uniqueEmail()),
      await logIn(String(email)),
      await logIn(String(email), ''),
    ];
    const answers = new Set<string>();
    for (const response of wrong) {
      const headers = [...response.headers].filter(([name]) => name !== 'x-request-id' && name !== 'date');
      answers.add(JSON.stringify([response.status, await response.clone().text(), headers]));
      expect(response.headers.has('set-cookie')).toBe(false);
      await expectError(response, 401, 'INVALID_CREDENTIALS');
    }
    expect(answers.size).toBe(1);
  });

  it('a password of 200 characters gets 401, a longer one 400 [C-1.4]', async ({ team }) => {
    await expectError(await logIn(team.admin.email, 'x'.repeat(200)), 401, 'INVALID_CREDENTIALS');
    await expectError(await logIn(team.admin.email, 'x'.repeat(201)), 400, 'VALIDATION_ERROR');
  });

  it('opens no session [C-1.4]', async ({ team }) => {
    const sessions = () => countOf('sessions', 'user_id = ?', team.admin.id);
    const before = await sessions();
    await expectError(await logIn(team.admin.email, 'not my password'), 401, 'INVALID_CREDENTIALS');
    expect(await sessions()).toBe(before);
  });
});

describe('the body of a login', () => {
  it('gets 400 unless it has an e-mail, a password and nothing else (bad input: REST)', async ({ team }) => {
    const { email } = team.viewer;
    const bodies = [
      {},
      [],
      null,
      { email },
      { password: PASSWORD },
      { email, password: null },
      { email, password: [PASSWORD] },
      { email: { $ne: '' }, password: PASSWORD },
      { email: [email], password: PASSWORD },
      { email: "' OR 1=1 --", password: PASSWORD },
      { email, password: PASSWORD, remember: true },
    ];
    for (const body of bodies) {
      await expectError(await anonymous.post('/auth/login', body), 400, 'VALIDATION_ERROR');
    }
  });

  it('gets 400 if its media type is not application/json [C-1.6]', async ({ team }) => {
    const body = JSON.stringify({ email: team.viewer.email, password: PASSWORD });
    for (const type of ['text/plain', 'application/csp-report', 'application/x-www-form-urlencoded']) {
      const init = { method: 'POST', body, headers: { 'content-type': type } };
      await expectError(await send('/api/v1/auth/login', init), 400, 'BAD_REQUEST');
    }
  });
});

const ANYWHERE = { address: null, userAgent: null, network: 'unknown' };

describe('the sessions of a user', () => {
  it('a user has at most 100 sessions: one more ends the oldest [C-1.4]', async ({ team, person }) => {
    const now = Date.now();
    vi.useFakeTimers({ toFake: ['Date'] });
    const ids: string[] = [];
    for (let index = 1; index < MOST_SESSIONS; index++) {
      const opened = await openSession(env.DB, { ...person, tokenVersion: 1 }, ANYWHERE, now + index);
      ids.push(opened?.id ?? 'none');
    }
    const isLive = async (sessionId = '') =>
      (await findSession(env.DB, { userId: person.id, sessionId }, Date.now()))?.isLive;
    vi.setSystemTime(now + MOST_SESSIONS);
    expect((await person.call('/auth/me')).status).toBe(200);
    const newest = await Person.logIn(person.email);
    expect((await newest.call('/auth/me')).status).toBe(200);
    await expectError(await person.call('/auth/me'), 401, 'UNAUTHORIZED');
    expect([await isLive(ids[0]), await isLive(ids.at(-1))]).toEqual([true, true]);
    vi.setSystemTime(now + MOST_SESSIONS + 1);
    await Person.logIn(person.email);
    expect([await isLive(ids[0]), await isLive(ids[1])]).toEqual([false, true]);
    // The session of another user is older and still works.
    expect((await team.orgAdmin.call('/auth/me')).status).toBe(200);
  });
});
