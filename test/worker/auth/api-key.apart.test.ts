/** A live key with vcp:read opens `/api/v1/vcp/*`, and nothing else does (spec: REST partner surface). */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { anonymous, unknownKey } from '#workerd/client.ts';
import { lastUsedAtMs } from '#workerd/door.ts';
import { changeRegistry, revokeKey } from '#workerd/registry-changes.ts';
import { send } from '#workerd/rest.ts';
import { describe, expect, expectError, expectSameError, test } from '#workerd/worker-test.ts';
import { API_KEY_SCOPES } from '../../../protocol/scopes.ts';

const SITES = '/vcp/sites';

/** Four paths of the read surface, three of them of one plant. */
const it = test.extend('paths', ({ plant: { id } }) => {
  return [SITES, ...['config', 'commands', 'telemetry/latest'].map((name) => `${SITES}/${id}/${name}`)];
});

function callWith(plaintext: string, path = SITES): Promise<Response> {
  return anonymous.call(path, { headers: { 'x-api-key': plaintext } });
}

describe('the X-API-Key header', () => {
  it('a key opens every path of the read surface (spec: Partner read surface)', async ({ key, paths }) => {
    for (const path of paths) expect([path, (await key.call(path)).status]).toEqual([path, 200]);
  });

  it('is needed on every path, which answers 401 without it, even with the key in a cookie or query (spec: REST partner surface)', async ({
    key,
    paths,
  }) => {
    const without: Record<string, string>[] = [
      {},
      { 'x-api-key': '' },
      { cookie: 'access_token=eyJhbGciOiJFZERTQSJ9.e30.x' },
      { cookie: `access_token=${key.key}; x-api-key=${key.key}` },
      { authorization: `Bearer ${key.key}` },
    ];
    for (const path of [...paths, `${SITES}?key=${key.key}`, '/vcp', '/vcp/unknown']) {
      for (const headers of without) {
        const { message } = await expectError(await anonymous.call(path, { headers }), 401, 'UNAUTHORIZED');
        expect(message).toContain('X-API-Key');
      }
    }
  });

  it('is needed by every other spelling of a path, which gets no data without it, only 401 or 404 (spec: REST partner surface)', async ({
    paths,
  }) => {
    for (const path of paths.map((one) => `/api/v1${one}`)) {
      const spellings = [
        path.replace('/vcp/', '/%76cp/'),
        path.replace('/vcp/', '/./vcp/'),
        path.replace('/vcp/', '/x/%2e%2e/vcp/'),
        path.replace('/vcp/', '//vcp/'),
        path.replace('/vcp/', '/VCP/'),
        path.replace('/vcp/', '%2Fvcp/'),
        path.replace('/vcp/', '/vcp%2F'),
        path.replace('/vcp/', '/%2576cp/'),
        `${path}/`,
        `/${path}`,
      ];
      for (const spelling of spellings) {
        expect([spelling, (await send(spelling)).status]).toEqual([spelling, expect.toBeOneOf([401, 404])]);
      }
    }
  });

  it('every unknown or malformed key gets the same 401 (spec: 401 UNAUTHORIZED)', async ({ key }) => {
    const typo = key.key.slice(0, -1) + (key.key.endsWith('A') ? 'B' : 'A');
    const malformed = [
      unknownKey(),
      typo,
      'x',
      'sw_',
      key.key.slice(3),
      key.key.toUpperCase(),
      `${key.key}x`,
      `${key.key},${key.key}`,
      `${key.key.slice(0, 11)}%`,
      `sw_${'0'.repeat(49)}`,
      'sw_'.padEnd(8_000, 'a'),
      '__proto__',
      "' OR 1=1 --",
      key.id,
      key.signingKey,
    ];
    await expectSameError(
      malformed.map((plaintext) => callWith(plaintext)),
      401,
      'UNAUTHORIZED',
    );
  });

  it('a request sets lastUsedAt of its key (spec: lastUsedAt)', async ({ key }) => {
    expect(await lastUsedAtMs(key.id)).toBeNull();
    const before = Date.now();
    await key.call(SITES);
    const usedAtMs = await lastUsedAtMs(key.id);
    expect(usedAtMs).toBeGreaterThanOrEqual(before);
    expect(usedAtMs).toBeLessThanOrEqual(Date.now());
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(before + 600_000);
    await key.call(SITES);
    expect(await lastUsedAtMs(key.id)).toBe(before + 600_000);
  });

  it('lastUsedAt of a key is written at most once a minute (spec: lastUsedAt)', async ({ key }) => {
    const prepare = vi.spyOn(env.DB, 'prepare');
    const writes = () => prepare.mock.calls.filter(([sql]) => /^update/i.test(sql)).length;
    await key.call(SITES);
    expect(writes()).toBe(1);
    await key.call(SITES);
    expect(writes()).toBe(1);
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(Date.now() + 60_001);
    await key.call(SITES);
    expect(writes()).toBe(2);
    prepare.mockRestore();
  });
});

describe('the answers of the read surface', () => {
  it('data and refusals both have Cache-Control: no-store', async ({ key, paths }) => {
    for (const path of paths) {
      for (const response of [await key.call(path), await anonymous.call(path), await key.delete(path)]) {
        expect(response.headers.get('cache-control')).toBe('no-store');
      }
    }
  });
});

describe('a revoked key', () => {
  it('gets 401 immediately on every path, and its lastUsedAt does not change [C-5.6]', async ({
    organization,
    key,
    paths,
  }) => {
    await key.call(SITES);
    await env.DB.prepare('UPDATE api_keys SET last_used_at_ms = 1 WHERE id = ?').bind(key.id).run();
    await changeRegistry(organization, revokeKey(key.id));
    for (const path of paths) {
      await expectError(await key.call(path), 401, 'UNAUTHORIZED');
    }
    expect(await lastUsedAtMs(key.id)).toBe(1);
  });

  it('gets 401 for each of forty concurrent requests that start after the revocation [C-5.6]', async ({
    organization,
    key,
    paths,
  }) => {
    const burst = () =>
      Promise.all(
        Array.from({ length: 40 }, async (_, index) => {
          return (await key.call(paths[index % paths.length] ?? SITES)).status;
        }),
      );
    const during = burst();
    await changeRegistry(organization, revokeKey(key.id));
    const after = await burst();
    expect([200, 401]).toEqual(expect.arrayContaining([...new Set(await during)]));
    expect(after).toEqual(after.map(() => 401));
  });

  it('gets the same answer as an unknown key (spec: States, API key)', async ({ organization, key }) => {
    await changeRegistry(organization, revokeKey(key.id));
    const [revoked, absent] = [await key.call(SITES), await callWith(unknownKey())];
    expect([revoked.status, await revoked.text()]).toEqual([absent.status, await absent.text()]);
  });
});

describe('the expiry of a key', () => {
  it('a key works until 1 ms before its expiresAt, and gets 401 from then on (spec: States, API key)', async ({
    newKey,
  }) => {
    const expiresAtMs = Date.now() + 60_000;
    const key = await newKey({ expiresAtMs });
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(expiresAtMs - 1);
    expect((await key.call(SITES)).status).toBe(200);
    expect(await lastUsedAtMs(key.id)).toBe(expiresAtMs - 1);
    for (const laterMs of [0, 1, 86_400_000]) {
      vi.setSystemTime(expiresAtMs + laterMs);
      await expectError(await key.call(SITES), 401, 'UNAUTHORIZED');
    }
    expect(await lastUsedAtMs(key.id)).toBe(expiresAtMs - 1);
  });
});

describe('the scope vcp:read', () => {
  it('is enough to list the sites (spec: Minimum scope sets)', async ({ newKey }) => {
    const key = await newKey({ scopes: ['vcp:read'] });
    expect((await key.call(SITES)).status).toBe(200);
  });

  it('is needed on every path: a key with all other scopes gets 403 (spec: Scopes)', async ({
    newKey,
    paths,
  }) => {
    const scopes = API_KEY_SCOPES.filter((one) => one !== 'vcp:read');
    for (const scope of scopes) {
      const weak = await newKey({ scopes: [scope] });
      await expectError(await weak.call(SITES), 403, 'FORBIDDEN');
    }
    const wide = await newKey({ scopes });
    for (const path of paths) await expectError(await wide.call(path), 403, 'FORBIDDEN');
  });
});
