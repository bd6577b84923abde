/** POST /auth/change-password invalidates earlier access tokens and ends other sessions [C-1.4]. */
import { env } from 'cloudflare:workers';
import { decodeJwt } from 'jose';
import { anonymous, bodyOf, type Client } from '#workerd/client.ts';
import { logIn, PASSWORD, Person, refresh } from '#workerd/people.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { LoginAnswer } from '../../../protocol/user.ts';

const NEXT = 'another horse battery';
const MOST = 10;

function change(by: Client, currentPassword: unknown, newPassword: unknown): Promise<Response> {
  return by.post('/auth/change-password', { currentPassword, newPassword });
}

async function changed(person: Person): Promise<LoginAnswer> {
  const { success, ...answer } = await bodyOf<LoginAnswer & { success: unknown }>(
    await change(person, PASSWORD, NEXT),
    200,
  );
  expect(success).toBe(true);
  return answer;
}

async function hashOf({ id }: Person): Promise<unknown> {
  return await env.DB.prepare('SELECT password_hash FROM users WHERE id = ?').bind(id).first('password_hash');
}

describe('a changed password', () => {
  it('the new password logs in and the old one does not [C-1.4]', async ({ person }) => {
    await changed(person);
    await expectError(await logIn(person.email, PASSWORD), 401, 'INVALID_CREDENTIALS');
    const next = await Person.logIn(person.email, NEXT);
    expect(decodeJwt(next.accessToken).ver).toBe(2);
    expect((await next.call('/auth/me')).status).toBe(200);
  });

  it('access tokens from before the change get 401 TOKEN_VERSION_MISMATCH [C-1.4]', async ({ person }) => {
    const elsewhere = await person.newSession();
    await changed(person);
    for (const one of [person, elsewhere]) {
      await expectError(await one.call('/auth/me'), 401, 'TOKEN_VERSION_MISMATCH');
      const logout = await one.callWithCookie('/auth/logout', { method: 'POST' });
      await expectError(logout, 401, 'TOKEN_VERSION_MISMATCH');
    }
  });

  it('the change ends all other sessions of the user and keeps its own [C-1.4]', async ({ person }) => {
    const [elsewhere, stranger] = [await person.newSession(), await Person.register()];
    const answer = await changed(person);
    await expectError(await refresh(elsewhere.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    const { accessToken } = await bodyOf<LoginAnswer>(await refresh(answer.refreshToken), 200);
    for (const token of [answer.accessToken, accessToken]) {
      const me = await anonymous.call('/auth/me', { headers: { authorization: `Bearer ${token}` } });
      expect(me.status).toBe(200);
    }
    expect((await stranger.call('/auth/me')).status).toBe(200);
  });

  it('an earlier refresh token is refused, and its use ends the session [C-14.7]', async ({ person }) => {
    const answer = await changed(person);
    await expectError(await refresh(person.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    await expectError(await refresh(answer.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
  });

  it('the answer sets a new access_token cookie for the same session [C-1.4]', async ({ person }) => {
    const body = { currentPassword: PASSWORD, newPassword: NEXT };
    const response = await person.callWithCookie('/auth/change-password', { method: 'POST', body });
    expect(response.status).toBe(200);
    const [cookie = '', refresh = '', ...others] = response.headers.getSetCookie();
    expect(others).toEqual([]);
    expect(refresh).toMatch(/^refresh_token=/);
    expect(cookie).toMatch(/; HttpOnly; Secure; SameSite=Lax$/);
    const accessToken = /^access_token=([^;]+)/.exec(cookie)?.[1] ?? '';
    expect(decodeJwt(accessToken).sid).toBe(decodeJwt(person.accessToken).sid);
    person.accessToken = accessToken;
    expect((await person.callWithCookie('/auth/me')).status).toBe(200);
  });

  it('one of two concurrent changes succeeds; only its session can be refreshed after that [C-1.4]', async ({
    person,
  }) => {
    const both = [person, await person.newSession()];
    const passwords = ['the first of the two', 'the second of the two'];
    const answers = await Promise.all(both.map((one, index) => change(one, PASSWORD, passwords[index])));
    const isSet = answers.map(({ status }) => status === 200);
    expect(isSet.filter(Boolean)).toHaveLength(1);
    for (const [index, answer] of answers.entries()) {
      const one = both[index];
      if (isSet[index] && one) one.refreshToken = ((await answer.json()) as LoginAnswer).refreshToken;
    }
    const statuses = isSet.map((is) => (is ? 200 : 401));
    const logins = await Promise.all(passwords.map((password) => logIn(person.email, password)));
    expect(logins.map(({ status }) => status)).toEqual(statuses);
    expect(
      (await Promise.all(both.map((one) => refresh(one.refreshToken)))).map(({ status }) => status),
    ).toEqual(statuses);
  });

  it('a concurrent login with the old password leaves no session [C-1.4]', async ({ person }) => {
    // The password changes after it was checked and before the session is opened.
    const batch = async <T>(statements: D1PreparedStatement[]) => {
      await changed(person);
      return await env.DB.batch<T>(statements);
    };
    const DB = { prepare: (sql: string) => env.DB.prepare(sql), batch } as D1Database;
    const options = { method: 'POST', body: { email: person.email, password: PASSWORD } } as const;
    const login = await anonymous.call('/auth/login', options, { DB });
    expect([200, 401]).toContain(login.status);
    if (login.status === 200) {
      const { status } = await refresh(((await login.json()) as LoginAnswer).refreshToken);
      expect(status, 'the refresh of the earlier session').toBe(401);
    }
    expect((await logIn(person.email, NEXT)).status).toBe(200);
  });
});

describe('a change that is refused', () => {
  it('a wrong current password gets 400 INVALID_CURRENT_PASSWORD [C-10]', async ({ person }) => {
    const before = await hashOf(person);
    for (const wrong of ['', 'x', PASSWORD.toUpperCase(), `${PASSWORD} `, NEXT]) {
      const response = await change(person, wrong, NEXT);
      await expectError(response, 400, 'INVALID_CURRENT_PASSWORD');
    }
    expect(await hashOf(person)).toBe(before);
    expect((await person.call('/auth/me')).status).toBe(200);
  });

  it('an invalid password or field gets 400 VALIDATION_ERROR [C-1.4]', async ({ person }) => {
    const before = await hashOf(person);
    const bodies = [
      ...['x'.repeat(9), 'x'.repeat(201), 'Password123', null].map((newPassword) => ({
        currentPassword: PASSWORD,
        newPassword,
      })),
      { currentPassword: ['x'], newPassword: NEXT },
      { newPassword: NEXT },
      { currentPassword: PASSWORD },
      { currentPassword: PASSWORD, newPassword: NEXT, userId: person.id },
      {},
      null,
    ];
    for (const body of bodies) {
      await expectError(await person.post('/auth/change-password', body), 400, 'VALIDATION_ERROR');
    }
    expect(await hashOf(person)).toBe(before);
  });

  it('after ten wrong passwords a session gets 423 ACCOUNT_LOCKED; its user can still log in [C-14.4]', async ({
    person,
  }) => {
    const calls = Array.from({ length: 2 * MOST });
    const answers = await Promise.all(calls.map(() => change(person, 'not my password', NEXT)));
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(MOST);
    expect(answers.filter(({ status }) => status === 423)).toHaveLength(MOST);
    await expectError(await change(person, PASSWORD, NEXT), 423, 'ACCOUNT_LOCKED');
    expect((await logIn(person.email, PASSWORD)).status).toBe(200);
  });

  it('a live session can change its password while logins of its user get 423 [C-14.4]', async ({
    person,
  }) => {
    for (let time = 0; time < MOST; time++) await logIn(person.email, 'not my password');
    await expectError(await logIn(person.email, PASSWORD), 423, 'ACCOUNT_LOCKED');
    await changed(person);
  });
});
