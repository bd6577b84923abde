/** POST /auth/refresh: each refresh token is good once; a second use of one ends its session [C-1.4]. */
import { env } from 'cloudflare:workers';
import { decodeJwt } from 'jose';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { signRefreshToken } from '../../../worker/auth/session-tokens.ts';
import { dropExpiredSessions } from '../../../worker/registry/sessions.ts';
import { bodyOf, call, PASSWORD, Person } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

const DAY_MS = 86_400_000;
const LIFETIME_MS = 30 * DAY_MS;

afterEach(() => {
  vi.useRealTimers();
});

/** The clock, from now on where the test puts it. */
function stopClock(): number {
  const now = Date.now();
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime(now);
  return now;
}

function refresh(refreshToken: unknown): Promise<Response> {
  return call('/auth/refresh', { method: 'POST', body: { refreshToken } });
}

async function refreshed(refreshToken: string): Promise<LoginAnswer> {
  return await bodyOf<LoginAnswer>(await refresh(refreshToken), 200);
}

async function statusOf(accessToken: string): Promise<number> {
  return (await call('/auth/me', { headers: { authorization: `Bearer ${accessToken}` } })).status;
}

function sessionOf({ accessToken }: { accessToken: string }): string {
  return String(decodeJwt(accessToken).sid);
}

describe('a refresh token', () => {
  it('is exchanged for what a login answers, in the same session, with the cookie [C-1.4]', async () => {
    const person = await Person.register();
    const response = await refresh(person.refreshToken);
    const cookies = response.headers.getSetCookie();
    const answer = await bodyOf<LoginAnswer>(response, 200);
    expect(answer).toMatchObject({ tokenType: 'Bearer', expiresIn: 900, user: { id: person.id } });
    expect(answer.refreshToken).not.toBe(person.refreshToken);
    expect(sessionOf(answer)).toBe(sessionOf(person));
    expect(cookies).toEqual([
      expect.stringMatching(`^access_token=${answer.accessToken}; .*HttpOnly; Secure; SameSite=Lax$`),
    ]);
    expect(await statusOf(answer.accessToken)).toBe(200);
  });

  it('needs no access token that holds, and brings what changed meanwhile [C-1.4] [C-1.5]', async () => {
    const person = await Person.register();
    const now = stopClock();
    const slug = `org-${crypto.randomUUID().slice(0, 8)}`;
    await person.read('/organizations', { method: 'POST', body: { name: slug, slug } }, 201);
    vi.setSystemTime(now + DAY_MS);
    expect(await statusOf(person.accessToken)).toBe(401);
    const { user, accessToken } = await refreshed(person.refreshToken);
    expect(user).toMatchObject({ role: 'ORG_ADMIN', memberships: [{ slug }] });
    expect(await statusOf(accessToken)).toBe(200);
  });

  it('is good for 30 days, the next one for 30 days from then [C-1.4]', async () => {
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

  it('answers as expired once its session is cleared away; one that lives is not [C-1.4]', async () => {
    const [idle, live] = [await Person.register(), await Person.register()];
    const now = stopClock();
    vi.setSystemTime(now + DAY_MS);
    const next = await refreshed(live.refreshToken);
    vi.setSystemTime(now + LIFETIME_MS + 60_000);
    await dropExpiredSessions(env.DB, Date.now(), 1_000);
    const rows = await env.DB.prepare('SELECT id FROM sessions WHERE user_id IN (?, ?)')
      .bind(idle.id, live.id)
      .all();
    expect(rows.results).toEqual([{ id: sessionOf(live) }]);
    await expectError(await refresh(idle.refreshToken), 401, 'REFRESH_TOKEN_EXPIRED');
    await refreshed(next.refreshToken);
  });

  it('of a session that was logged out is revoked [C-1.4]', async () => {
    const person = await Person.register();
    await person.read('/auth/logout', { method: 'POST' });
    await expectError(await refresh(person.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
  });

  it('is no access token, nor the other way round [C-1.4]', async () => {
    const person = await Person.register();
    expect(await statusOf(person.refreshToken)).toBe(401);
    await expectError(await refresh(person.accessToken), 401, 'REFRESH_TOKEN_INVALID');
  });
});

describe('a refresh token that is used again', () => {
  it('is revoked, and ends its session at once, access tokens and all [C-1.4]', async () => {
    const person = await Person.register();
    const next = await refreshed(person.refreshToken);
    const third = await refreshed(next.refreshToken);
    for (const { accessToken } of [person, next, third]) expect(await statusOf(accessToken)).toBe(200);
    await expectError(await refresh(person.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    for (const { accessToken } of [person, next, third]) expect(await statusOf(accessToken)).toBe(401);
    for (const { refreshToken } of [person, next, third]) {
      await expectError(await refresh(refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    }
  });

  it('ends no other session, of its user or of others [C-1.4]', async () => {
    const [person, other] = [await Person.register(), await Person.register()];
    const elsewhere = await Person.logIn(person.email);
    await refreshed(person.refreshToken);
    await expectError(await refresh(person.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    for (const one of [elsewhere, other]) {
      expect(await statusOf(one.accessToken)).toBe(200);
      await refreshed(one.refreshToken);
    }
    expect(await statusOf((await Person.logIn(person.email)).accessToken)).toBe(200);
  });

  it('by many at once is good for exactly one of them, and then the session ends [C-1.4]', async () => {
    const person = await Person.register();
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

describe('what is no refresh token of ours', () => {
  it('gets 401 REFRESH_TOKEN_INVALID, and harms no session [C-1.4]', async () => {
    const person = await Person.register();
    const other = await Person.register();
    await refreshed(person.refreshToken);
    const [sessionId = '', generation = '', mac = ''] = person.refreshToken.split('.');
    const next = { sessionId, generation: 2 };
    const forged = [
      '',
      'x',
      '..',
      sessionId,
      `${sessionId}.2.${mac}`,
      `${sessionOf(other)}.${generation}.${mac}`,
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
      expect(message).toBe('Not a refresh token');
    }
    expect(await statusOf(person.accessToken)).toBe(200);
    expect(await statusOf(other.accessToken)).toBe(200);
  });

  it('gets 400 where the body is not one text of at most 500 characters (bad input: REST)', async () => {
    const { refreshToken, email } = await Person.register();
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
      await expectError(await call('/auth/refresh', { method: 'POST', body }), 400, 'VALIDATION_ERROR');
    }
    await refreshed(refreshToken);
  });

  it('is not looked for in the cookie: it is the access token’s (spec: Other REST surface)', async () => {
    const { refreshToken, accessToken } = await Person.register();
    for (const value of [refreshToken, accessToken]) {
      const headers = { cookie: `access_token=${value}; refresh_token=${refreshToken}` };
      await expectError(await call('/auth/refresh', { method: 'POST', headers }), 400, 'VALIDATION_ERROR');
    }
  });
});
