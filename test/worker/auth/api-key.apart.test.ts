/** Who passes `/api/v1/vcp/*`: a live key with vcp:read, and nothing else (spec: REST partner surface). */
import { env } from 'cloudflare:workers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { composeApiKey } from '../../../protocol/api-key.ts';
import { API_KEY_SCOPES } from '../../../protocol/scopes.ts';
import { lastUsedAtMs } from '../../support/workerd/door.ts';
import { changeRegistry, revokeKey } from '../../support/workerd/registry-changes.ts';
import { expectError, restRequest, send, settle } from '../../support/workerd/rest.ts';
import {
  createKey,
  createOrganization,
  createPlant,
  type Key,
  type Organization,
} from '../../support/workerd/world.ts';

const SITES = '/api/v1/vcp/sites';

async function paths(): Promise<{ organization: Organization; key: Key; paths: string[] }> {
  const organization = await createOrganization();
  const plant = await createPlant(organization);
  const site = `${SITES}/${plant.id}`;
  return {
    organization,
    key: await createKey(organization),
    paths: [SITES, `${site}/config`, `${site}/commands`, `${site}/telemetry/latest`],
  };
}

afterEach(() => {
  vi.useRealTimers();
});

describe('the X-API-Key header', () => {
  it('opens every path of the read surface (spec: Partner read surface)', async () => {
    const { key, paths: all } = await paths();
    for (const path of all) expect([path, (await send(path, { key: key.key })).status]).toEqual([path, 200]);
  });

  it('is required on every path: without it, and with a session cookie or a bearer token alone, 401 (spec: REST partner surface)', async () => {
    const { key, paths: all } = await paths();
    const without: Record<string, string>[] = [
      {},
      { 'x-api-key': '' },
      { cookie: 'access_token=eyJhbGciOiJFZERTQSJ9.e30.x' },
      { cookie: `access_token=${key.key}; x-api-key=${key.key}` },
      { authorization: `Bearer ${key.key}` },
    ];
    for (const path of [...all, `${SITES}?key=${key.key}`, '/api/v1/vcp', '/api/v1/vcp/unknown']) {
      for (const headers of without) {
        const { message } = await expectError(await send(path, { headers }), 401, 'UNAUTHORIZED');
        expect(message).toContain('X-API-Key');
      }
    }
  });

  it('is required however the path is spelled (spec: REST partner surface)', async () => {
    const { paths: all } = await paths();
    for (const path of all) {
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

  it('is refused with 401 when it is no key of ours, one and the same answer for all (spec: 401 UNAUTHORIZED)', async () => {
    const { key } = await paths();
    const unknown = composeApiKey(crypto.getRandomValues(new Uint8Array(128)));
    const typo = key.key.slice(0, -1) + (key.key.endsWith('A') ? 'B' : 'A');
    const malformed = [
      unknown,
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
    const bodies = new Set<string>();
    for (const plaintext of malformed) {
      const response = await send(SITES, { key: plaintext });
      bodies.add(await response.clone().text());
      await expectError(response, 401, 'UNAUTHORIZED');
    }
    expect(bodies.size).toBe(1);
  });

  it('marks a key as used when it was (spec: lastUsedAt)', async () => {
    const { key } = await paths();
    expect(await lastUsedAtMs(key.id)).toBeNull();
    const before = Date.now();
    await settle(restRequest(SITES, { key: key.key }));
    const usedAtMs = await lastUsedAtMs(key.id);
    expect(usedAtMs).toBeGreaterThanOrEqual(before);
    expect(usedAtMs).toBeLessThanOrEqual(Date.now());
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(before + 600_000);
    await settle(restRequest(SITES, { key: key.key }));
    expect(await lastUsedAtMs(key.id)).toBe(before + 600_000);
  });

  it('asks D1 for a write only when the mark is older than a minute (spec: lastUsedAt)', async () => {
    const { key } = await paths();
    const prepare = vi.spyOn(env.DB, 'prepare');
    const writes = () => prepare.mock.calls.filter(([sql]) => /^update/i.test(sql)).length;
    await settle(restRequest(SITES, { key: key.key }));
    expect(writes()).toBe(1);
    await settle(restRequest(SITES, { key: key.key }));
    expect(writes()).toBe(1);
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(Date.now() + 60_001);
    await settle(restRequest(SITES, { key: key.key }));
    expect(writes()).toBe(2);
    prepare.mockRestore();
  });
});

describe('an answer with data', () => {
  it('is kept by nobody on the way, a refusal neither', async () => {
    const { key, paths: all } = await paths();
    for (const path of all) {
      for (const options of [{ key: key.key }, {}, { key: key.key, method: 'DELETE' }]) {
        expect((await send(path, options)).headers.get('cache-control')).toBe('no-store');
      }
    }
  });
});

describe('a revoked key', () => {
  it('is refused on the very next request, on every path, and no longer marked as used [C-5.6]', async () => {
    const { organization, key, paths: all } = await paths();
    await settle(restRequest(SITES, { key: key.key }));
    await env.DB.prepare('UPDATE api_keys SET last_used_at_ms = 1 WHERE id = ?').bind(key.id).run();
    await changeRegistry(organization, revokeKey(key.id));
    for (const path of all) {
      await expectError(await settle(restRequest(path, { key: key.key })), 401, 'UNAUTHORIZED');
    }
    expect(await lastUsedAtMs(key.id)).toBe(1);
  });

  it('is refused to all of many parallel requests that start after it [C-5.6]', async () => {
    const { organization, key, paths: all } = await paths();
    const burst = () =>
      Promise.all(
        Array.from({ length: 40 }, async (_, index) => {
          const response = await send(all[index % all.length] ?? SITES, { key: key.key });
          await response.arrayBuffer();
          return response.status;
        }),
      );
    const during = burst();
    await changeRegistry(organization, revokeKey(key.id));
    const after = await burst();
    expect([200, 401]).toEqual(expect.arrayContaining([...new Set(await during)]));
    expect(after).toEqual(after.map(() => 401));
  });

  it('answers exactly as an unknown one (spec: States, API key)', async () => {
    const { organization, key } = await paths();
    await changeRegistry(organization, revokeKey(key.id));
    const unknown = composeApiKey(crypto.getRandomValues(new Uint8Array(128)));
    const [revoked, absent] = [await send(SITES, { key: key.key }), await send(SITES, { key: unknown })];
    expect([revoked.status, await revoked.text()]).toEqual([absent.status, await absent.text()]);
  });
});

describe('an expired key', () => {
  it('works until its time and is refused from then on, lastUsedAt untouched (spec: States, API key)', async () => {
    const organization = await createOrganization();
    const expiresAtMs = Date.now() + 60_000;
    const key = await createKey(organization, { expiresAtMs });
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(expiresAtMs - 1);
    expect((await settle(restRequest(SITES, { key: key.key }))).status).toBe(200);
    expect(await lastUsedAtMs(key.id)).toBe(expiresAtMs - 1);
    for (const laterMs of [0, 1, 86_400_000]) {
      vi.setSystemTime(expiresAtMs + laterMs);
      await expectError(await settle(restRequest(SITES, { key: key.key })), 401, 'UNAUTHORIZED');
    }
    expect(await lastUsedAtMs(key.id)).toBe(expiresAtMs - 1);
  });
});

describe('the scope vcp:read', () => {
  it('is enough on its own (spec: Minimum scope sets)', async () => {
    const key = await createKey(await createOrganization(), { scopes: ['vcp:read'] });
    expect((await send(SITES, { key: key.key })).status).toBe(200);
  });

  it('is missing from a key with any other scope alone: 403 on every path (spec: Scopes)', async () => {
    const { paths: all } = await paths();
    const organization = await createOrganization();
    for (const scope of API_KEY_SCOPES.filter((one) => one !== 'vcp:read')) {
      const key = await createKey(organization, { scopes: [scope] });
      await expectError(await send(SITES, { key: key.key }), 403, 'FORBIDDEN');
    }
    const rest = API_KEY_SCOPES.filter((one) => one !== 'vcp:read');
    const key = await createKey(organization, { scopes: rest });
    for (const path of all) await expectError(await send(path, { key: key.key }), 403, 'FORBIDDEN');
  });
});
