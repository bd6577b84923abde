/** Access tokens: ours are taken while they and their session last, and what somebody else made never is [C-1.4]. */
import { env } from 'cloudflare:workers';
import { decodeJwt, importJWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { dropExpiredSessions } from '../../../worker/registry/sessions.ts';
import { call, createTeam, Person, type Team } from '../../support/workerd/people.ts';
import { expectError, restRequest, settle } from '../../support/workerd/rest.ts';
import { TOKEN_PRIVATE_KEY } from '../../support/workerd/tokens.ts';

const LIFETIME_MS = 900_000;

let team: Team;
/** What a token of ours says. */
let claims: JWTPayload;

beforeAll(async () => {
  team = await createTeam();
  claims = decodeJwt(team.viewer.accessToken);
});

beforeEach(() => {
  // Tokens count in seconds: in the middle of one no test depends on where it began.
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime((claims.iat ?? 0) * 1_000 + 500);
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function me(accessToken: string): Promise<Response> {
  return call('/auth/me', { headers: { authorization: `Bearer ${accessToken}` } });
}

/** Refused as the bearer and in the cookie, in one and the same way. */
async function expectRefused(accessToken: string): Promise<void> {
  const texts = [];
  for (const headers of [
    { authorization: `Bearer ${accessToken}` },
    { cookie: `access_token=${accessToken}` },
  ]) {
    const response = await call('/auth/me', { headers });
    texts.push(await response.clone().text());
    await expectError(response, 401, 'UNAUTHORIZED');
  }
  expect(texts[1]).toBe(texts[0]);
}

async function sign(
  payload: JWTPayload,
  secret: string = env.SESSION_SECRET,
  alg = 'HS256',
): Promise<string> {
  return await new SignJWT(payload).setProtectedHeader({ alg }).sign(new TextEncoder().encode(secret));
}

function base64Url(text: string): string {
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

describe('the tests’ own token', () => {
  it('is taken: what is refused below is refused for what it changes', async () => {
    expect((await me(await sign(claims))).status).toBe(200);
    expect((await me(await sign({ ...claims, extra: 1 }))).status).toBe(200);
  });
});

describe('the signature', () => {
  it('is by our secret: none, and one by anything else, gets 401 (bad input: REST)', async () => {
    const other = 'another-secret-of-more-than-32-characters';
    const secrets = [other, env.BRIDGE_SECRET, env.TOKEN_KEYS, env.DATA_KEYS, TOKEN_PRIVATE_KEY.x];
    for (const secret of secrets) await expectRefused(await sign(claims, secret));
    const [header, payload, signature = ''] = (await sign(claims)).split('.');
    const last = signature.endsWith('A') ? 'Q' : 'A';
    for (const text of ['', '.', `.${last}`, `.${signature.slice(0, -1)}${last}`, `.${signature}.x`, '..']) {
      await expectRefused(`${header}.${payload}${text}`);
    }
    const promoted = base64Url(JSON.stringify({ ...claims, sub: team.orgAdmin.id }));
    await expectRefused(`${header}.${promoted}.${signature}`);
  });

  it('is never left out by alg none (bad input: REST)', async () => {
    await expectRefused(new UnsecuredJWT(claims).encode());
    const [, payload, signature] = (await sign(claims)).split('.');
    for (const alg of ['none', 'None', 'NONE', 'nOnE', '', null, undefined, 'HS256 ', ['HS256']]) {
      const header = base64Url(JSON.stringify({ alg }));
      await expectRefused(`${header}.${payload}.`);
      await expectRefused(`${header}.${payload}.${signature}`);
    }
  });

  it('is by the one algorithm: a stronger one of ours, and the devices’, get 401 [C-1.4]', async () => {
    for (const alg of ['HS384', 'HS512']) await expectRefused(await sign(claims, env.SESSION_SECRET, alg));
    const deviceKey = await importJWK(TOKEN_PRIVATE_KEY, 'EdDSA');
    await expectRefused(await new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA' }).sign(deviceKey));
  });

  it('is by a key that the token cannot bring along (bad input: REST)', async () => {
    const secret = 'another-secret-of-more-than-32-characters';
    const headers = [
      { kid: '../../dev/null' },
      { jwk: { kty: 'oct', k: base64Url(secret) } },
      { jku: 'https://evil.example/keys' },
    ];
    for (const header of headers) {
      const key = new TextEncoder().encode(secret);
      await expectRefused(
        await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', ...header }).sign(key),
      );
    }
  });

  it('may be by an older secret while that is configured, and is no longer after [C-1.4]', async () => {
    const token = await sign(claims);
    const request = () => restRequest('/api/v1/auth/me', { headers: { authorization: `Bearer ${token}` } });
    const newer = 'a-newer-secret-of-more-than-32-characters';
    expect((await settle(request(), { SESSION_SECRET: `${newer}, ${env.SESSION_SECRET}` })).status).toBe(200);
    await expectError(await settle(request(), { SESSION_SECRET: newer }), 401, 'UNAUTHORIZED');
  });

  it('is not taken with a secret that is too short to be one (ours: 32 characters)', async () => {
    const logged = vi.spyOn(console, 'error').mockReturnValue();
    const init = { headers: { authorization: `Bearer ${await sign(claims, 'short')}` } };
    for (const SESSION_SECRET of ['short', `${env.SESSION_SECRET},short`]) {
      const response = await settle(restRequest('/api/v1/auth/me', init), { SESSION_SECRET });
      await expectError(response, 500, 'INTERNAL_SERVER_ERROR');
    }
    expect(logged).toHaveBeenCalledTimes(2);
  });
});

describe('what a token says', () => {
  it('is our issuer, our audience, a user and a session, or it gets 401 [C-1.4]', async () => {
    const changes: Record<string, unknown>[] = [
      { iss: 'other' },
      { iss: 'Sitewire' },
      { iss: undefined },
      { aud: 'mqtt' },
      { aud: ['mqtt', 'amqp'] },
      { aud: undefined },
      { sub: undefined },
      { sub: '' },
      { sub: 'x' },
      { sub: crypto.randomUUID() },
      { sub: team.orgAdmin.id },
      { sid: undefined },
      { sid: crypto.randomUUID() },
      { sid: decodeJwt(team.orgAdmin.accessToken).sid },
      { sid: 1 },
      { ver: undefined },
      { ver: '1' },
      { ver: true },
      { nbf: (claims.iat ?? 0) + 60 },
    ];
    for (const change of changes) await expectRefused(await sign({ ...claims, ...change }));
  });

  it('has an end, which is a number (bad input: REST)', async () => {
    const exp = claims.exp ?? 0;
    const ends = [undefined, null, String(exp), '2099-01-01', true, [exp], {}, 'Infinity', 0, -1];
    for (const end of ends) {
      const payload = base64Url(JSON.stringify({ ...claims, exp: end }));
      const signed = `${base64Url('{"alg":"HS256"}')}.${payload}`;
      await expectRefused(`${signed}.${await macOf(signed)}`);
    }
    const payload = base64Url(JSON.stringify(claims));
    const signed = `${base64Url('{"alg":"HS256"}')}.${payload}`;
    expect((await me(`${signed}.${await macOf(signed)}`)).status).toBe(200);
  });

  it('ends after 15 minutes to the second [C-1.4]', async () => {
    const begunAtMs = (claims.iat ?? 0) * 1_000;
    vi.setSystemTime(begunAtMs + LIFETIME_MS - 1);
    expect((await me(team.viewer.accessToken)).status).toBe(200);
    for (const laterMs of [0, 1, 60_000, 40 * 86_400_000]) {
      vi.setSystemTime(begunAtMs + LIFETIME_MS + laterMs);
      await expectRefused(team.viewer.accessToken);
    }
  });

  it('is of another token version: 401 TOKEN_VERSION_MISMATCH, older or newer [C-1.4]', async () => {
    for (const ver of [0, 2, 1.5, -1]) {
      await expectError(await me(await sign({ ...claims, ver })), 401, 'TOKEN_VERSION_MISMATCH');
    }
  });
});

describe('a session', () => {
  it('that is over ends its access tokens, however long they would last [C-1.4]', async () => {
    const person = await Person.register();
    const { sid } = decodeJwt(person.accessToken);
    await env.DB.prepare('UPDATE sessions SET expires_at_ms = ? WHERE id = ?').bind(Date.now(), sid).run();
    await expectRefused(person.accessToken);
    await dropExpiredSessions(env.DB, Date.now() + 1, 100);
    await expectRefused(person.accessToken);
  });
});

/** For what `SignJWT` would not sign. */
async function macOf(text: string): Promise<string> {
  const encoder = new TextEncoder();
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', encoder.encode(env.SESSION_SECRET), algorithm, false, [
    'sign',
  ]);
  const mac = await crypto.subtle.sign('HMAC', key, encoder.encode(text));
  return base64Url(String.fromCharCode(...new Uint8Array(mac)));
}
