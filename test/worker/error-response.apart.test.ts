/** The error envelope wherever a request goes wrong: paths, methods, bugs (spec: Errors; [C-10]). */
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { Site } from '../../durable-objects/site.ts';
import { expectError, send } from '../support/workerd/rest.ts';
import { createKey, createOrganization, createPlant } from '../support/workerd/world.ts';

const REQUEST_ID = 'x-request-id';

let key: string;
let existing: string[];

beforeAll(async () => {
  const organization = await createOrganization();
  const plant = await createPlant(organization);
  key = (await createKey(organization)).key;
  const site = `/api/v1/vcp/sites/${plant.id}`;
  existing = ['/api/v1/vcp/sites', `${site}/config`, `${site}/commands`, `${site}/telemetry/latest`];
});

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a path that does not exist', () => {
  it('answers 404 NOT_FOUND to every method, one same body everywhere (spec: Errors)', async () => {
    const paths = [
      '/',
      '/favicon.ico',
      '/api',
      '/api/v1',
      '/api/v2/vcp/sites',
      '/api/v1/unknown',
      '/api/v1/unknown/__proto__',
      '/link',
      '/link/http',
      '/constructor',
      '/%00',
      '/%',
      '/%zz',
      '/%ff%fe',
      `/${'a'.repeat(8_000)}`,
      '/index.html?x=1',
    ];
    const bodies = new Set<string>();
    for (const path of paths) {
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        const response = await send(path, { method });
        bodies.add(await response.clone().text());
        await expectError(response, 404, 'NOT_FOUND');
      }
    }
    expect(bodies.size).toBe(1);
  });

  it('is what doubled slashes and climbing segments lead to, on either side of the key (bad input: REST)', async () => {
    const paths = [
      '//',
      '//api/v1/vcp/sites',
      '/api//v1/vcp/sites',
      '/api/v1//vcp/sites',
      '/api/v1/vcp/%2e%2e/keys',
      '/api/v1/vcp/sites/%2e%2e/%2e%2e/keys',
      '/api/v1/%2e%2e/%2e%2e/%2e%2e/etc/passwd',
      '/api/v1/..%2f..%2fetc/passwd',
      '/%2e%2e/%2e%2e/x',
    ];
    for (const path of paths) {
      await expectError(await send(path), 404, 'NOT_FOUND');
      await expectError(await send(path, { key }), 404, 'NOT_FOUND');
    }
  });

  it('is 404 below the partner surface too, for who holds a key (spec: Errors)', async () => {
    const paths = [
      '/api/v1/vcp',
      '/api/v1/vcp/',
      '/api/v1/vcp//sites',
      '/api/v1/vcp/sites/',
      '/api/v1/vcp/sites//',
    ];
    for (const path of [
      ...paths,
      '/api/v1/vcp/unknown',
      `${existing[1]}/`,
      `${existing[1]}/x`,
      '/api/v1/vcp/Sites',
    ]) {
      await expectError(await send(path, { key }), 404, 'NOT_FOUND');
    }
  });
});

describe('a method that a path does not have', () => {
  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE'])(
    '%s answers 405 with the code BAD_REQUEST on every path that exists [C-10]',
    async (method) => {
      for (const path of existing) {
        const response = await send(path, { method, key });
        expect(response.headers.get('allow')).toBe('GET, HEAD');
        const body = await expectError(response, 405, 'BAD_REQUEST');
        expect(body.error).toBe('Method Not Allowed');
      }
    },
  );

  it('asks for the key first (spec: REST partner surface)', async () => {
    for (const path of existing) {
      await expectError(await send(path, { method: 'DELETE' }), 401, 'UNAUTHORIZED');
    }
  });

  it('does not include HEAD, which is GET without its body (spec: Endpoints)', async () => {
    for (const path of existing) {
      const response = await send(path, { method: 'HEAD', key });
      expect([response.status, await response.text()]).toEqual([200, '']);
    }
  });
});

describe('a bug on our side', () => {
  const SECRET = 'SQLITE_CONSTRAINT: secret detail at durable-objects/site.ts:42';

  function breakSite(method: 'readConfig' | 'readCommands' | 'readLatestTelemetry'): void {
    vi.spyOn(console, 'error').mockImplementation(() => {});
    vi.spyOn(Site.prototype, method).mockImplementation(() => {
      throw Object.assign(new Error(SECRET), { code: 'FORBIDDEN', status: 403, details: [SECRET] });
    });
  }

  it.each([
    [1, 'readConfig'],
    [2, 'readCommands'],
    [3, 'readLatestTelemetry'],
  ] as const)(
    'answers 500 with an envelope that says nothing more (path %i, %s throws) (spec: 500 INTERNAL_SERVER_ERROR)',
    async (index, method) => {
      breakSite(method);
      const response = await send(existing[index] ?? '', { key });
      const text = await response.clone().text();
      const body = await expectError(response, 500, 'INTERNAL_SERVER_ERROR');
      expect(Object.keys(body).sort()).toEqual(['code', 'error', 'message', 'statusCode']);
      expect(text).not.toMatch(/secret|SQLITE|site\.ts|stack|at /i);
      expect(JSON.stringify([...response.headers])).not.toMatch(/secret|SQLITE/i);
    },
  );

  it('is told to the log in full, under the request’s id (style: Errors)', async () => {
    breakSite('readConfig');
    const log = vi.spyOn(console, 'error').mockImplementation(() => {});
    await send(existing[1] ?? '', { key });
    expect(log).toHaveBeenCalledWith(
      expect.any(String),
      expect.objectContaining({ requestId: expect.any(String), method: 'GET', path: existing[1] }),
    );
  });

  it('is over with the request: the next one is answered (bad input: REST)', async () => {
    breakSite('readConfig');
    await expectError(await send(existing[1] ?? '', { key }), 500, 'INTERNAL_SERVER_ERROR');
    vi.restoreAllMocks();
    expect((await send(existing[1] ?? '', { key })).status).toBe(200);
  });
});

describe('the request id', () => {
  it('is in a header of every success, another each time (style: Errors)', async () => {
    const ids = await Promise.all([1, 2].map(async () => (await send(existing[0] ?? '', { key })).headers));
    expect(new Set(ids.map((headers) => headers.get(REQUEST_ID))).size).toBe(2);
    expect(ids[0]?.get(REQUEST_ID)).toMatch(/\S/);
  });

  it('is in a header of every error as well (style: Errors)', async () => {
    vi.spyOn(console, 'error').mockImplementation(() => {});
    vi.spyOn(Site.prototype, 'readConfig').mockRejectedValue(new Error('x'));
    const responses = [
      await send('/api/v1/unknown'),
      await send(existing[0] ?? ''),
      await send(existing[0] ?? '', { method: 'POST', key }),
      await send(existing[1] ?? '', { key }),
    ];
    expect(responses.map((response) => [response.status, response.headers.has(REQUEST_ID)])).toEqual([
      [404, true],
      [401, true],
      [405, true],
      [500, true],
    ]);
  });
});
