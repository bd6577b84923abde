/** POST /auth/refresh: a refresh token works once; a second use ends its session [C-1.4]. */
import { env } from 'cloudflare:workers';
import { decodeJwt } from 'jose';
import { vi } from 'vitest';
import { anonymous, bodyOf } from '#workerd/client.ts';
import { valuesFrom } from '#workerd/d1.ts';
import { PASSWORD, Person, refresh } from '#workerd/people.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { dropExpiredSessions } from '../../../registry/sessions.ts';
import { signRefreshToken } from '../../../worker/auth/session-tokens.ts';

const DAY_MS = 86_400_000;
const LIFETIME_MS = 30 * DAY_MS;

async function refreshed(refreshToken: string): Promise<LoginAnswer> {
  return await bodyOf<LoginAnswer>(await refresh(refreshToken), 200);
}

async function statusOf(accessToken: string): Promise<number> {
  const headers = { authorization: `Bearer ${accessToken}` };
  return (await anonymous.call('/auth/me', { headers })).status;
}

function sessionOf({ accessToken }: { accessToken: string }): string {
  return String(decodeJwt(accessToken).sid);
}

describe('a refresh token', () => {
  it('a refresh answers like a login, in the same session, with the cookie [C-1.4]', async ({ person }) => {
    const response = await refresh(person.refreshToken);
    const cookies = response.headers.getSetCookie();
    const answer = await bodyOf<LoginAnswer>(response, 200);
    expect(answer).toMatchObject({ tokenType: 'Bearer', expiresIn: 900, user: { id: person.id } });
    expect(answer.refreshToken).not.toBe(person.refreshToken);
    expect(sessionOf(answer)).toBe(sessionOf(person));
    expect(cookies).toEqual([
      expect.stringMatching(`^access_token=${answer.accessToken}; .*HttpOnly; Secure; SameSite=Lax$`),
      expect.stringMatching(`^refresh_token=${answer.refreshToken}; .*HttpOnly`),
    ]);
    expect(await statusOf(answer.accessToken)).toBe(200);
  });

  it('a refresh needs no valid access token and reads current roles [C-1.4] [C-1.5]', async ({ person }) => {
    const now = stopClock();
    const slug = uniqueSlug();
    await person.create('/organizations', { name: slug, slug });
    vi.setSystemTime(now + DAY_MS);
    expect(await statusOf(person.accessToken)).toBe(401);
    const { user, accessToken } = await refreshed(person.refreshToken);
    expect(user).toMatchObject({ role: 'ORG_ADMIN', memberships: [{ slug }] });
    expect(await statusOf(accessToken)).toBe(200);
  });

  it('is valid for 30 days, and so is each that replaces it in the first 60 days of a session [C-1.4]', async () => {
    const [late, idle] = [await Person.register(), await Person.register()];
    const now = stopClock();
    vi.setSystemTime(now + LIFETIME_MS - 60_000);
    const next = await refreshed(late.refreshToken);
    vi.setSystemTime(now + LIFETIME_MS + 1);
    await expectError(await refresh(idle.refreshToken), 401, 'REFRESH_TOKEN_EXPIRED');
    vi.setSystemTime(now + 2 * LIFETIME_MS - 60_001);
    const last = await refreshed(next.refreshToken);
    vi.setSystemTime(now + 3 * LIFETIME_MS - 60_001);
    await expectError(await refresh(last.refreshToken), 401, 'REFRESH_TOKEN_EXPIRED');
  });

  it('gets 401 REFRESH_TOKEN_EXPIRED when its expired session was deleted [C-1.4]', async () => {
    const [idle, live] = [await Person.register(), await Person.register()];
    const now = stopClock();
    vi.setSystemTime(now + DAY_MS);
    const next = await refreshed(live.refreshToken);
    vi.setSystemTime(now + LIFETIME_MS + 60_000);
    await dropExpiredSessions(env.DB, Date.now(), 1_000);
    const left = await valuesFrom('SELECT id FROM sessions WHERE user_id IN (?, ?)', idle.id, live.id);
    expect(left).toEqual([sessionOf(live)]);
    await expectError(await refresh(idle.refreshToken), 401, 'REFRESH_TOKEN_EXPIRED');
    await refreshed(next.refreshToken);
  });

  it('gets 401 as an access token, and an access token gets 401 as a refresh token [C-1.4]', async ({
    person,
  }) => {
    expect(await statusOf(person.refreshToken)).toBe(401);
    await expectError(await refresh(person.accessToken), 401, 'REFRESH_TOKEN_INVALID');
  });
});

describe('a refresh token that is used again', () => {
  it('gets 401, and its session with all its tokens ends immediately [C-1.4]', async ({ person }) => {
    const next = await refreshed(person.refreshToken);
    const third = await refreshed(next.refreshToken);
    for (const { accessToken } of [person, next, third]) expect(await statusOf(accessToken)).toBe(200);
    await expectError(await refresh(person.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    for (const { accessToken } of [person, next, third]) expect(await statusOf(accessToken)).toBe(401);
    for (const { refreshToken } of [person, next, third]) {
      await expectError(await refresh(refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    }
  });

  it('ends no other session [C-1.4]', async ({ person }) => {
    const [second, elsewhere] = [await Person.register(), await person.newSession()];
    await refreshed(person.refreshToken);
    await expectError(await refresh(person.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    for (const one of [elsewhere, second]) {
      expect(await statusOf(one.accessToken)).toBe(200);
      await refreshed(one.refreshToken);
    }
    expect(await statusOf((await Person.logIn(person.email)).accessToken)).toBe(200);
  });

  it('succeeds once of many concurrent uses, and the session ends [C-1.4]', async ({ person }) => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(person.refreshToken)));
    const winners = answers.filter(({ status }) => status === 200);
    expect(winners).toHaveLength(1);
    for (const loser of answers.filter(({ status }) => status !== 200)) {
      await expectError(loser, 401, 'REFRESH_TOKEN_REVOKED');
    }
    const won = await bodyOf<LoginAnswer>(winners[0] as Response, 200);
    for (const { accessToken } of [person, won]) expect(await statusOf(accessToken)).toBe(401);
    await expectError(await refresh(won.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
  });
});

describe('a refresh token that is forged or in the wrong place', () => {
  it('gets 401 REFRESH_TOKEN_INVALID if it is forged, and ends no session [C-1.4]', async ({ person }) => {
    const second = await Person.register();
    await refreshed(person.refreshToken);
    const [sessionId = '', generation = '', mac = ''] = person.refreshToken.split('.');
    const next = { sessionId, generation: 2 };
    const forged = [
      '',
      'x',
      '..',
      sessionId,
      `${sessionId}.2.${mac}`,
      `${sessionOf(second)}.${generation}.${mac}`,
      `${sessionId}.01.${mac}`,
      `${sessionId}.1.${mac.toUpperCase()}`,
      `${sessionId.toUpperCase()}.1.${mac}`,
      `${sessionId}.1.${mac.slice(0, -1)}${mac.endsWith('0') ? '1' : '0'}`,
      `${sessionId}.1.${'0'.repeat(64)}`,
      `${sessionId}.1.`,
      `${sessionId}.1`,
      `${person.refreshToken}x`,
      ` ${person.refreshToken}`,
      `${person.refreshToken}\n`,
      signRefreshToken('another-secret-of-more-than-32-characters', next),
      signRefreshToken(env.BRIDGE_SECRET, next),
      "' OR 1=1 --",
    ];
    for (const token of forged) {
      const { message } = await expectError(await refresh(token), 401, 'REFRESH_TOKEN_INVALID');
      expect(message).toBe('The refresh token is not one of this deployment: log in again');
    }
    expect(await statusOf(person.accessToken)).toBe(200);
    expect(await statusOf(second.accessToken)).toBe(200);
  });

  it('gets 400 unless it is text of up to 500 characters and the only field of the body (bad input: REST)', async ({
    person,
  }) => {
    const { refreshToken, email } = person;
    const bodies = [
      {},
      [],
      null,
      { refreshToken: null },
      { refreshToken: [refreshToken] },
      { refreshToken: 'x'.repeat(501) },
      { refreshToken, email, password: PASSWORD },
      { refreshToken, sid: '1' },
    ];
    for (const body of bodies) {
      await expectError(await anonymous.post('/auth/refresh', body), 400, 'VALIDATION_ERROR');
    }
    await refreshed(refreshToken);
  });

  it('is ignored in a cookie: the request gets 400 (spec: Other REST surface)', async ({ person }) => {
    const { refreshToken, accessToken } = person;
    for (const value of [refreshToken, accessToken]) {
      const headers = { cookie: `access_token=${value}; refresh_token=${refreshToken}` };
      const response = await anonymous.post('/auth/refresh', undefined, { headers });
      await expectError(response, 400, 'VALIDATION_ERROR');
    }
  });
});
