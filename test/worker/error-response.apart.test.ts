/** The error envelope of every failure: unknown paths, wrong methods, bugs (spec: Errors; [C-10]). */
import { vi } from 'vitest';
import { send } from '#workerd/rest.ts';
import { describe, expect, expectError, expectSameError, test } from '#workerd/worker-test.ts';
import { Site } from '../../durable-objects/site.ts';

const REQUEST_ID = 'x-request-id';
const SITES = '/api/v1/vcp/sites';

/** The paths of the read surface that exist, for one plant. */
const it = test
  .extend('secret', async ({ newKey }) => (await newKey()).key)
  .extend('existing', ({ plant: { id } }) => {
    return [SITES, ...['config', 'commands', 'telemetry/latest'].map((name) => `${SITES}/${id}/${name}`)];
  });

describe('a path that does not exist', () => {
  it('outside /vcp answers every method with the same 404 NOT_FOUND (spec: Errors)', async () => {
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
      // Only a development stack has the simulated plant, beside the Worker.
      '/dev/simulator',
    ];
    const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
    const answers = paths.flatMap((path) => methods.map((method) => send(path, { method })));
    await expectSameError(answers, 404, 'NOT_FOUND');
  });

  it('gets 404 with doubled slashes or "..", with a key or without (bad input: REST)', async ({ secret }) => {
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
      await expectError(await send(path, { key: secret }), 404, 'NOT_FOUND');
    }
  });

  it('below /vcp gets 404 if the client has a key (spec: Errors)', async ({ secret, existing }) => {
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
      await expectError(await send(path, { key: secret }), 404, 'NOT_FOUND');
    }
  });
});

describe('another method than GET', () => {
  it.for(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE'])(
    '%s with a key gets 405 with the code BAD_REQUEST on every path of the partner surface [C-10]',
    async (method, { secret, existing }) => {
      for (const path of existing) {
        const takesCommands = new URL(path, 'https://a.example').pathname.endsWith('/commands');
        if (method === 'POST' && takesCommands) continue;
        const response = await send(path, { method, key: secret });
        expect(response.headers.get('allow')).toBe(takesCommands ? 'GET, HEAD, POST' : 'GET, HEAD');
        const body = await expectError(response, 405, 'BAD_REQUEST');
        expect(body.error).toBe('Method Not Allowed');
      }
    },
  );

  it('a wrong method without a key gets 401 (spec: REST partner surface)', async ({ existing }) => {
    for (const path of existing) {
      await expectError(await send(path, { method: 'DELETE' }), 401, 'UNAUTHORIZED');
    }
  });

  it('HEAD is answered like GET, without the body (spec: Endpoints)', async ({ secret, existing }) => {
    for (const path of existing) {
      const response = await send(path, { method: 'HEAD', key: secret });
      expect([response.status, await response.text()]).toEqual([200, '']);
    }
  });
});

describe('an exception in our code', () => {
  const SECRET = 'SQLITE_CONSTRAINT: secret detail at durable-objects/site.ts:42';

  function breakSite(method: 'readConfig' | 'readCommands' | 'readLatestTelemetry'): void {
    vi.spyOn(console, 'error').mockImplementation(() => {});
    vi.spyOn(Site.prototype, method).mockImplementation(() => {
      throw Object.assign(new Error(SECRET), { code: 'FORBIDDEN', status: 403, details: [SECRET] });
    });
  }

  it.for([
    [1, 'readConfig'],
    [2, 'readCommands'],
    [3, 'readLatestTelemetry'],
  ] as const)(
    'is answered with 500 and none of its text (path %i: Site.%s throws) (spec: 500 INTERNAL_SERVER_ERROR)',
    async ([index, method], { secret, existing }) => {
      breakSite(method);
      const response = await send(existing[index] ?? '', { key: secret });
      const text = await response.clone().text();
      const body = await expectError(response, 500, 'INTERNAL_SERVER_ERROR');
      expect(Object.keys(body).sort()).toEqual(['code', 'error', 'message', 'statusCode']);
      expect(text).not.toMatch(/secret|SQLITE|site\.ts|stack|at /i);
      expect(JSON.stringify([...response.headers])).not.toMatch(/secret|SQLITE/i);
    },
  );

  it('is logged once, with its text and stack, method, path and the request id of the answer (style: Errors)', async ({
    secret,
    existing,
  }) => {
    breakSite('readConfig');
    const log = vi.spyOn(console, 'error').mockImplementation(() => {});
    const response = await send(existing[1] ?? '', { key: secret });
    const requestId = response.headers.get(REQUEST_ID);
    expect(requestId).toMatch(/\S/);
    const stack = expect.stringContaining(`Error: ${SECRET}\n    at `);
    expect(log.mock.calls).toEqual([
      [
        'request failed because of an unexpected error, the client gets 500',
        { requestId, method: 'GET', path: existing[1], stack },
      ],
    ]);
  });

  it('does not affect the next request (bad input: REST)', async ({ secret, existing }) => {
    breakSite('readConfig');
    await expectError(await send(existing[1] ?? '', { key: secret }), 500, 'INTERNAL_SERVER_ERROR');
    vi.restoreAllMocks();
    expect((await send(existing[1] ?? '', { key: secret })).status).toBe(200);
  });
});

describe('the request id', () => {
  it('every success has a header with its own request id (style: Errors)', async ({ secret, existing }) => {
    const ids = await Promise.all(
      [1, 2].map(async () => (await send(existing[0] ?? '', { key: secret })).headers),
    );
    expect(new Set(ids.map((headers) => headers.get(REQUEST_ID))).size).toBe(2);
    expect(ids[0]?.get(REQUEST_ID)).toMatch(/\S/);
  });

  it('every error has a header with its request id (style: Errors)', async ({ secret, existing }) => {
    vi.spyOn(console, 'error').mockImplementation(() => {});
    vi.spyOn(Site.prototype, 'readConfig').mockRejectedValue(new Error('x'));
    const responses = [
      await send('/api/v1/unknown'),
      await send(existing[0] ?? ''),
      await send(existing[0] ?? '', { method: 'POST', key: secret }),
      await send(existing[1] ?? '', { key: secret }),
    ];
    expect(responses.map((response) => [response.status, response.headers.has(REQUEST_ID)])).toEqual([
      [404, true],
      [401, true],
      [405, true],
      [500, true],
    ]);
  });
});
