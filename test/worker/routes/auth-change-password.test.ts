/** POST /auth/change-password: tokens and sessions of before are no good any more [C-1.4]. */
import { env } from 'cloudflare:workers';
import { decodeJwt } from 'jose';
import { describe, expect, it } from 'vitest';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { bodyOf, type Call, call, PASSWORD, Person } from '../../support/workerd/people.ts';
import { expectError, restRequest, settle } from '../../support/workerd/rest.ts';

const NEXT = 'another horse battery';
const MOST = 10;

function change(currentPassword: unknown, newPassword: unknown): Call {
  return { method: 'POST', body: { currentPassword, newPassword } };
}

function logIn(email: string, password: string): Promise<Response> {
  return call('/auth/login', { method: 'POST', body: { email, password } });
}

function refresh({ refreshToken }: { refreshToken: string }): Promise<Response> {
  return call('/auth/refresh', { method: 'POST', body: { refreshToken } });
}

async function changed(person: Person): Promise<void> {
  expect(await person.read('/auth/change-password', change(PASSWORD, NEXT))).toEqual({ success: true });
}

async function hashOf({ id }: Person): Promise<unknown> {
  return await env.DB.prepare('SELECT password_hash FROM users WHERE id = ?').bind(id).first('password_hash');
}

describe('a changed password', () => {
  it('logs in, and the one before does not any more [C-1.4]', async () => {
    const person = await Person.register();
    await changed(person);
    await expectError(await logIn(person.email, PASSWORD), 401, 'INVALID_CREDENTIALS');
    const next = await Person.logIn(person.email, NEXT);
    expect(decodeJwt(next.accessToken).ver).toBe(2);
    expect((await next.call('/auth/me')).status).toBe(200);
  });

  it('makes every access token of before 401 TOKEN_VERSION_MISMATCH, one’s own too [C-1.4]', async () => {
    const person = await Person.register();
    const elsewhere = await Person.logIn(person.email);
    await changed(person);
    for (const one of [person, elsewhere]) {
      await expectError(await one.call('/auth/me'), 401, 'TOKEN_VERSION_MISMATCH');
      await expectError(
        await one.callWithCookie('/auth/logout', { method: 'POST' }),
        401,
        'TOKEN_VERSION_MISMATCH',
      );
    }
  });

  it('ends every other session; this one goes on by its refresh token [C-1.4]', async () => {
    const person = await Person.register();
    const [elsewhere, stranger] = [await Person.logIn(person.email), await Person.register()];
    await changed(person);
    await expectError(await refresh(elsewhere), 401, 'REFRESH_TOKEN_REVOKED');
    const { accessToken } = await bodyOf<LoginAnswer>(await refresh(person), 200);
    const me = await call('/auth/me', { headers: { authorization: `Bearer ${accessToken}` } });
    expect(me.status).toBe(200);
    expect((await stranger.call('/auth/me')).status).toBe(200);
  });

  it('brings a new cookie to who came with one, of the same session, and none to a bearer [C-1.4]', async () => {
    const person = await Person.register();
    const response = await person.callWithCookie('/auth/change-password', change(PASSWORD, NEXT));
    expect(response.status).toBe(200);
    const [cookie = '', ...others] = response.headers.getSetCookie();
    expect(others).toEqual([]);
    expect(cookie).toMatch(/; HttpOnly; Secure; SameSite=Lax$/);
    const accessToken = /^access_token=([^;]+)/.exec(cookie)?.[1] ?? '';
    expect(decodeJwt(accessToken).sid).toBe(decodeJwt(person.accessToken).sid);
    person.accessToken = accessToken;
    expect((await person.callWithCookie('/auth/me')).status).toBe(200);
    const again = await person.call('/auth/change-password', change(NEXT, PASSWORD));
    expect([again.status, again.headers.getSetCookie()]).toEqual([200, []]);
  });

  it('is one of two that were set at once, and the session that set it goes on [C-1.4]', async () => {
    const person = await Person.register();
    const both = [person, await Person.logIn(person.email)];
    const passwords = ['the first of the two', 'the second of the two'];
    const answers = await Promise.all(
      both.map((one, index) => one.call('/auth/change-password', change(PASSWORD, passwords[index]))),
    );
    const isSet = answers.map(({ status }) => status === 200);
    expect(isSet.filter(Boolean)).toHaveLength(1);
    const statuses = isSet.map((is) => (is ? 200 : 401));
    const logins = await Promise.all(passwords.map((password) => logIn(person.email, password)));
    expect(logins.map(({ status }) => status)).toEqual(statuses);
    expect((await Promise.all(both.map(refresh))).map(({ status }) => status)).toEqual(statuses);
  });

  it('leaves no session to who logged in with the one before at the same moment [C-1.4]', async () => {
    const person = await Person.register();
    // The password is judged, the session not yet open: then it changes.
    const batch = async <T>(statements: D1PreparedStatement[]) => {
      await changed(person);
      return await env.DB.batch<T>(statements);
    };
    const DB = { prepare: (sql: string) => env.DB.prepare(sql), batch } as D1Database;
    const init = { method: 'POST', headers: { 'content-type': 'application/json' } };
    const body = JSON.stringify({ email: person.email, password: PASSWORD });
    const login = await settle(restRequest('/api/v1/auth/login', { ...init, body }), { DB });
    expect([200, 401]).toContain(login.status);
    if (login.status === 200) {
      const { status } = await refresh((await login.json()) as LoginAnswer);
      expect(['the refresh of a session of before', status]).toEqual([
        'the refresh of a session of before',
        401,
      ]);
    }
    expect((await logIn(person.email, NEXT)).status).toBe(200);
  });
});

describe('a change that is refused', () => {
  it('for a wrong current password is 400 INVALID_CURRENT_PASSWORD, and changes nothing [C-10]', async () => {
    const person = await Person.register();
    const before = await hashOf(person);
    for (const wrong of ['', 'x', PASSWORD.toUpperCase(), `${PASSWORD} `, NEXT]) {
      const response = await person.call('/auth/change-password', change(wrong, NEXT));
      await expectError(response, 400, 'INVALID_CURRENT_PASSWORD');
    }
    expect(await hashOf(person)).toBe(before);
    expect((await person.call('/auth/me')).status).toBe(200);
  });

  it('for what is no password, or for other fields, is 400 VALIDATION_ERROR [C-1.4]', async () => {
    const person = await Person.register();
    const before = await hashOf(person);
    const bodies = [
      change(PASSWORD, 'x'.repeat(9)).body,
      change(PASSWORD, 'x'.repeat(201)).body,
      change(PASSWORD, null).body,
      change(['x'], NEXT).body,
      { newPassword: NEXT },
      { currentPassword: PASSWORD },
      { currentPassword: PASSWORD, newPassword: NEXT, userId: person.id },
      {},
      null,
    ];
    for (const body of bodies) {
      await expectError(
        await person.call('/auth/change-password', { method: 'POST', body }),
        400,
        'VALIDATION_ERROR',
      );
    }
    expect(await hashOf(person)).toBe(before);
  });

  it('without a session is 401 [C-1.4]', async () => {
    await expectError(await call('/auth/change-password', change(PASSWORD, NEXT)), 401, 'UNAUTHORIZED');
  });

  it('after ten wrong ones, those of the login counted too, is 423 ACCOUNT_LOCKED [C-1.4]', async () => {
    const person = await Person.register();
    const [half, calls] = [MOST / 2, Array.from({ length: MOST })];
    await Promise.all(calls.slice(half).map(() => logIn(person.email, 'not my password')));
    const answers = await Promise.all(
      calls.map(() => person.call('/auth/change-password', change('not my password', NEXT))),
    );
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(half);
    expect(answers.filter(({ status }) => status === 423)).toHaveLength(MOST - half);
    const right = await person.call('/auth/change-password', change(PASSWORD, NEXT));
    await expectError(right, 423, 'ACCOUNT_LOCKED');
    await expectError(await logIn(person.email, PASSWORD), 423, 'ACCOUNT_LOCKED');
  });
});
