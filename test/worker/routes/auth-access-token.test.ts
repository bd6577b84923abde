/** Access tokens work while they and their session last; no forged token ever works [C-1.4]. */
import { env } from 'cloudflare:workers';
import { decodeJwt, importJWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { vi } from 'vitest';
import { anonymous } from '#workerd/client.ts';
import { base64Url } from '#workerd/door.ts';
import { TOKEN_PRIVATE_KEY } from '#workerd/tokens.ts';
import { describe, expect, expectError, expectSameError, test } from '#workerd/worker-test.ts';
import type { Env } from '../../../durable-objects/env.ts';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { dropExpiredSessions } from '../../../registry/sessions.ts';

const LIFETIME_MS = 900_000;

/** The claims of a token of the Worker; the clock is stopped in the middle of the second of its creation. */
const it = test
  .extend('claims', { scope: 'file' }, ({ team }) => decodeJwt(team.viewer.accessToken))
  .extend('clock', { auto: true }, ({ claims }) => {
    vi.useFakeTimers({ toFake: ['Date'], now: (claims.iat ?? 0) * 1_000 + 500 });
  });

function me(accessToken: string, bindings?: Partial<Env>): Promise<Response> {
  return anonymous.call('/auth/me', { headers: { authorization: `Bearer ${accessToken}` } }, bindings);
}

/** The token is refused as the bearer and in the cookie, with the same answer. */
async function expectRefused(accessToken: string): Promise<void> {
  const byCookie = anonymous.call('/auth/me', { headers: { cookie: `access_token=${accessToken}` } });
  await expectSameError([me(accessToken), byCookie], 401, 'UNAUTHORIZED');
}

async function sign(
  payload: JWTPayload,
  secret: string = env.SESSION_SECRET,
  alg = 'HS256',
): Promise<string> {
  return await new SignJWT(payload).setProtectedHeader({ alg }).sign(new TextEncoder().encode(secret));
}

/** Signs a text that `SignJWT` would not. */
function macOf(text: string): string {
  const mac = hmacHex(env.SESSION_SECRET, text).match(/../g) ?? [];
  return base64Url(String.fromCharCode(...mac.map((pair) => Number.parseInt(pair, 16))));
}

describe('the tokens that the suite signs itself', () => {
  it('a token signed with the right secret works', async ({ claims }) => {
    expect((await me(await sign(claims))).status).toBe(200);
    expect((await me(await sign({ ...claims, extra: 1 }))).status).toBe(200);
  });
});

describe('the signature', () => {
  it('a missing signature or another secret gets 401 (bad input: REST)', async ({ team, claims }) => {
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

  it('alg none gets 401 (bad input: REST)', async ({ claims }) => {
    await expectRefused(new UnsecuredJWT(claims).encode());
    const [, payload, signature] = (await sign(claims)).split('.');
    for (const alg of ['none', 'None', 'NONE', 'nOnE', '', null, undefined, 'HS256 ', ['HS256']]) {
      const header = base64Url(JSON.stringify({ alg }));
      await expectRefused(`${header}.${payload}.`);
      await expectRefused(`${header}.${payload}.${signature}`);
    }
  });

  it('another algorithm gets 401, also that of device tokens [C-1.4]', async ({ claims }) => {
    for (const alg of ['HS384', 'HS512']) await expectRefused(await sign(claims, env.SESSION_SECRET, alg));
    const deviceKey = await importJWK(TOKEN_PRIVATE_KEY, 'EdDSA');
    await expectRefused(await new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA' }).sign(deviceKey));
  });

  it('a key in the token’s header is ignored (bad input: REST)', async ({ claims }) => {
    const secret = 'another-secret-of-more-than-32-characters';
    const headers = [
      { kid: '../../dev/null' },
      { jwk: { kty: 'oct', k: base64Url(secret) } },
      { jku: 'https://evil.example/keys' },
    ];
    for (const header of headers) {
      const key = new TextEncoder().encode(secret);
      const signed = new SignJWT(claims).setProtectedHeader({ alg: 'HS256', ...header });
      await expectRefused(await signed.sign(key));
    }
  });

  it('a token of an older secret works while that secret is configured [C-1.4]', async ({ claims }) => {
    const token = await sign(claims);
    const newer = 'a-newer-secret-of-more-than-32-characters';
    expect((await me(token, { SESSION_SECRET: `${newer}, ${env.SESSION_SECRET}` })).status).toBe(200);
    await expectError(await me(token, { SESSION_SECRET: newer }), 401, 'UNAUTHORIZED');
  });

  it('requests get 500, and an error is logged, if a secret has under 32 characters', async ({ claims }) => {
    const logged = vi.spyOn(console, 'error').mockReturnValue();
    for (const SESSION_SECRET of ['short', `${env.SESSION_SECRET},short`]) {
      const response = await me(await sign(claims, 'short'), { SESSION_SECRET });
      await expectError(response, 500, 'INTERNAL_SERVER_ERROR');
    }
    expect(logged).toHaveBeenCalledTimes(2);
  });
});

describe('the claims', () => {
  it('a wrong issuer, audience, user or session gets 401 [C-1.4]', async ({ team, claims }) => {
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

  it('a token without a numeric expiry gets 401 (bad input: REST)', async ({ claims }) => {
    const exp = claims.exp ?? 0;
    const ends = [undefined, null, String(exp), '2099-01-01', true, [exp], {}, 'Infinity', 0, -1];
    for (const end of ends) {
      const payload = base64Url(JSON.stringify({ ...claims, exp: end }));
      const signed = `${base64Url('{"alg":"HS256"}')}.${payload}`;
      await expectRefused(`${signed}.${macOf(signed)}`);
    }
    const payload = base64Url(JSON.stringify(claims));
    const signed = `${base64Url('{"alg":"HS256"}')}.${payload}`;
    expect((await me(`${signed}.${macOf(signed)}`)).status).toBe(200);
  });

  it('a token expires after 15 minutes to the second [C-1.4]', async ({ team, claims }) => {
    const begunAtMs = (claims.iat ?? 0) * 1_000;
    vi.setSystemTime(begunAtMs + LIFETIME_MS - 1);
    expect((await me(team.viewer.accessToken)).status).toBe(200);
    for (const laterMs of [0, 1, 60_000, 40 * 86_400_000]) {
      vi.setSystemTime(begunAtMs + LIFETIME_MS + laterMs);
      await expectRefused(team.viewer.accessToken);
    }
  });

  it('another token version gets 401 TOKEN_VERSION_MISMATCH [C-1.4]', async ({ claims }) => {
    for (const ver of [0, 2, 1.5, -1]) {
      await expectError(await me(await sign({ ...claims, ver })), 401, 'TOKEN_VERSION_MISMATCH');
    }
  });
});

describe('the end of a session', () => {
  it('ends its access tokens, before and after housekeeping deletes it [C-1.4]', async ({ person }) => {
    const { sid } = decodeJwt(person.accessToken);
    await env.DB.prepare('UPDATE sessions SET expires_at_ms = ? WHERE id = ?').bind(Date.now(), sid).run();
    await expectRefused(person.accessToken);
    await dropExpiredSessions(env.DB, Date.now() + 1, 100);
    await expectRefused(person.accessToken);
  });
});
