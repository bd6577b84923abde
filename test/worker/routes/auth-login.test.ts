/** POST /auth/login: tokens of a new session for who has the password, one and the same refusal for all others [C-1.4]. */
import { env } from 'cloudflare:workers';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { findSession, openSession } from '../../../worker/registry/sessions.ts';
import { bodyOf, call, createTeam, PASSWORD, Person, type Team } from '../../support/workerd/people.ts';
import { RegistryRows } from '../../support/workerd/registry-rows.ts';
import { expectError, restRequest, send, settle } from '../../support/workerd/rest.ts';

const MOST_SESSIONS = 100;

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

afterEach(() => {
  vi.useRealTimers();
});

function logIn(email: string, password = PASSWORD): Promise<Response> {
  return call('/auth/login', { method: 'POST', body: { email, password } });
}

describe('a right login', () => {
  it('answers the user, a bearer of 15 minutes and a refresh token [C-1.4]', async () => {
    const before = Date.now();
    const answer = await bodyOf<LoginAnswer>(await logIn(team.operator.email), 200);
    expect(answer).toEqual({
      user: {
        id: team.operator.id,
        email: team.operator.email,
        name: 'Somebody',
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
    const me = await call('/auth/me', { headers: { authorization: `Bearer ${answer.accessToken}` } });
    expect(await bodyOf(me, 200)).toMatchObject({ user: answer.user });
  });

  it('sets the same token as the cookie access_token: HttpOnly, Secure, SameSite=Lax, Path=/ [C-1.4]', async () => {
    const response = await logIn(team.viewer.email);
    const cookies = response.headers.getSetCookie();
    const { accessToken } = await bodyOf<LoginAnswer>(response, 200);
    expect(cookies).toHaveLength(1);
    const [pair, ...attributes] = (cookies[0] ?? '').split('; ');
    expect(pair).toBe(`access_token=${accessToken}`);
    expect(attributes.sort()).toEqual(['HttpOnly', 'Max-Age=900', 'Path=/', 'SameSite=Lax', 'Secure']);
  });

  it('signs a JWT by one algorithm that names user, session and token version [C-1.4]', async () => {
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

  it('opens a session of its own each time [C-1.4]', async () => {
    const both = [await Person.logIn(team.viewer.email), await Person.logIn(team.viewer.email)];
    const sessions = both.map(({ accessToken }) => decodeJwt(accessToken).sid);
    expect(new Set(sessions).size).toBe(2);
    for (const person of both) expect((await person.call('/auth/me')).status).toBe(200);
  });

  it('takes the e-mail in any case [C-1.4]', async () => {
    expect((await logIn(team.admin.email.toUpperCase())).status).toBe(200);
  });

  it('shows a role only where one organization says it [C-1.3] [C-1.5]', async () => {
    const person = await Person.register();
    const role = async () => (await bodyOf<LoginAnswer>(await logIn(person.email), 200)).user.role;
    expect(await role()).toBeNull();
    for (const expected of ['ORG_ADMIN', null]) {
      const slug = `org-${crypto.randomUUID().slice(0, 8)}`;
      await person.read('/organizations', { method: 'POST', body: { name: slug, slug } }, 201);
      expect(await role()).toBe(expected);
    }
  });
});

describe('a wrong login', () => {
  it('gets 401 INVALID_CREDENTIALS, the same for an unknown e-mail and for a user without a password [C-1.4]', async () => {
    const { email } = await (await RegistryRows.create()).insert('users', { password_hash: null });
    const wrong = [
      await logIn(team.viewer.email, 'not my password'),
      await logIn(team.viewer.email, ''),
      await logIn(team.viewer.email, PASSWORD.toUpperCase()),
      await logIn(team.viewer.email, ` ${PASSWORD}`),
      await logIn(`${crypto.randomUUID()}@example.org`),
      await logIn(String(email)),
      await logIn(String(email), ''),
    ];
    const told = new Set<string>();
    for (const response of wrong) {
      const headers = [...response.headers].filter(([name]) => name !== 'x-request-id');
      told.add(JSON.stringify([response.status, await response.clone().text(), headers]));
      expect(response.headers.has('set-cookie')).toBe(false);
      await expectError(response, 401, 'INVALID_CREDENTIALS');
    }
    expect(told.size).toBe(1);
  });

  it('is no matter of a password’s length, but for one that nobody can have [C-1.4]', async () => {
    await expectError(await logIn(team.admin.email, 'x'.repeat(200)), 401, 'INVALID_CREDENTIALS');
    await expectError(await logIn(team.admin.email, 'x'.repeat(201)), 400, 'VALIDATION_ERROR');
  });

  it('opens no session [C-1.4]', async () => {
    const sessions = () =>
      env.DB.prepare('SELECT count(*) AS n FROM sessions WHERE user_id = ?').bind(team.admin.id).first('n');
    const before = await sessions();
    await expectError(await logIn(team.admin.email, 'not my password'), 401, 'INVALID_CREDENTIALS');
    expect(await sessions()).toBe(before);
  });
});

describe('the body of a login', () => {
  it('is an e-mail and a password, nothing else (bad input: REST)', async () => {
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
      await expectError(await call('/auth/login', { method: 'POST', body }), 400, 'VALIDATION_ERROR');
    }
  });

  it('is application/json [C-1.6]', async () => {
    const body = JSON.stringify({ email: team.viewer.email, password: PASSWORD });
    for (const type of ['text/plain', 'application/csp-report', 'application/x-www-form-urlencoded']) {
      const init = { method: 'POST', body, headers: { 'content-type': type } };
      await expectError(await send('/api/v1/auth/login', init), 400, 'BAD_REQUEST');
    }
  });
});

describe('the sessions of a user', () => {
  it('are 100 at most: with one more the oldest is gone [C-1.4]', async () => {
    const person = await Person.register();
    const now = Date.now();
    vi.useFakeTimers({ toFake: ['Date'] });
    const ids: string[] = [];
    for (let index = 1; index < MOST_SESSIONS; index++) {
      const opened = await openSession(env.DB, { ...person, tokenVersion: 1 }, null, now + index);
      ids.push(opened ?? 'none');
    }
    const isLive = async (sessionId = '') =>
      (await findSession(env.DB, { userId: person.id, sessionId }, Date.now()))?.isLive;
    vi.setSystemTime(now + MOST_SESSIONS);
    expect((await settle(restRequest('/api/v1/auth/me', bearer(person)))).status).toBe(200);
    const newest = await Person.logIn(person.email);
    expect((await newest.call('/auth/me')).status).toBe(200);
    await expectError(await person.call('/auth/me'), 401, 'UNAUTHORIZED');
    expect([await isLive(ids[0]), await isLive(ids.at(-1))]).toEqual([true, true]);
    vi.setSystemTime(now + MOST_SESSIONS + 1);
    await Person.logIn(person.email);
    expect([await isLive(ids[0]), await isLive(ids[1])]).toEqual([false, true]);
    // Older than all of them, and somebody else's.
    expect((await team.orgAdmin.call('/auth/me')).status).toBe(200);
  });
});

function bearer({ accessToken }: Person): RequestInit {
  return { headers: { authorization: `Bearer ${accessToken}` } };
}
