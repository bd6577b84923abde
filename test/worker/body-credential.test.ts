/** A body is read only after its credential is accepted, and a stranger's bodies are small and few [C-15.7]. */

import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { unknownKey } from '#workerd/client.ts';
import { restRequest, send, sendRequest } from '#workerd/rest.ts';
import { nameOf, pathWith } from '#workerd/routes.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import type { Env } from '../../durable-objects/env.ts';
import { ROUTES } from '../../worker/app.ts';
import worker from '../../worker/index.ts';

const KIB = 1_024;
const PUBLIC_BYTES = 16 * KIB;
const REPORT_BYTES = 64 * KIB;
/** All unfinished bodies of one address. */
const ADDRESS_BYTES = 256 * KIB;
/** A request that waits for its body for so long waits for ever. */
const AT_ONCE_MS = 1_000;
const JSON_TYPE = { 'content-type': 'application/json' };
const REPORT = '/api/v1/csp-report';

const WITH_BODY = ROUTES.filter(
  ({ body, method, path }) => body && method !== 'GET' && path.startsWith('/api/v1/'),
);
const PUBLIC = WITH_BODY.filter(({ who }) => who.door === 'public');
const GUARDED = WITH_BODY.filter(({ who }) => who.door !== 'public');

/** A JSON text of this many bytes. */
function jsonOf(bytes: number): string {
  return `{"x":"${'y'.repeat(bytes - 8)}"}`;
}

/** A body that sends some bytes and then nothing until `finish`. `pulls`: how often it was read. */
class Unfinished {
  readonly body: ReadableStream<Uint8Array>;
  pulls = 0;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(text = '') {
    const bytes = new TextEncoder().encode(text);
    const begin = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      this.#controller = controller;
    };
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      this.pulls += 1;
      if (this.pulls === 1 && bytes.length > 0) controller.enqueue(bytes);
    };
    this.body = new ReadableStream({ start: begin, pull }, { highWaterMark: 0 });
  }

  finish(text = ''): void {
    if (text !== '') this.#controller?.enqueue(new TextEncoder().encode(text));
    this.#controller?.close();
  }
}

/** The status of the answer, without the work after it; `waits` if it waits for the body. */
async function statusOf(path: string, init: RequestInit & { key?: string }): Promise<number | 'waits'> {
  const answer = worker.fetch(restRequest(path, init), env, createExecutionContext());
  const late = scheduler.wait(AT_ONCE_MS).then(() => 'waits' as const);
  return await Promise.race([Promise.resolve(answer).then(({ status }) => status), late]);
}

const it = test.extend('from', () => {
  const block = crypto.getRandomValues(new Uint8Array(2)).join('.');
  return (host: number, path: string, init: RequestInit) => {
    const headers = { ...JSON_TYPE, ...(init.headers as object), 'cf-connecting-ip': `10.${block}.${host}` };
    return sendRequest(restRequest(path, { method: 'POST', ...init, headers }), {
      CLIENT_ADDRESS: 'platform',
      ADDRESS_RATE_PER_MINUTE: '10000',
    } as Partial<Env>);
  };
});

describe('a body without an accepted credential', () => {
  it.for(GUARDED.map((route) => [nameOf(route), route] as const))(
    'is not waited for by %s [C-15.7]',
    async ([_name, route], { team }) => {
      const path = pathWith(route, { organizations: team.id });
      for (const length of [undefined, '1000']) {
        const unfinished = new Unfinished('{"a":');
        const headers = { ...JSON_TYPE, ...(length === undefined ? {} : { 'content-length': length }) };
        const init = { method: route.method, headers, body: unfinished.body };
        expect([length, await statusOf(path, init)]).toEqual([length, 401]);
      }
    },
  );

  it.for([
    ['no credential', {}],
    ['an unknown key', { 'x-api-key': unknownKey() }],
    ['no valid session', { authorization: 'Bearer x' }],
  ] as const)('is not waited for with %s [C-15.7]', async ([, credential]) => {
    for (const path of ['/api/v1/vcp/sites', '/api/v1/plants', '/api/v1/vcp/unknown']) {
      const unfinished = new Unfinished('{');
      const headers = { ...JSON_TYPE, ...credential };
      const status = await statusOf(path, { method: 'POST', headers, body: unfinished.body });
      expect([path, status]).toEqual([path, 401]);
    }
  });

  it('is not waited for with a key that has not the scope [C-15.7]', async ({ newKey }) => {
    const { key } = await newKey({ scopes: ['plants:read'] });
    const unfinished = new Unfinished('{');
    const init = { method: 'POST', key, headers: JSON_TYPE, body: unfinished.body };
    expect(await statusOf('/api/v1/vcp/sites', init)).toBe(403);
  });

  it('gets 401 and not 413 when it has no length and is too large [C-15.7]', async () => {
    const part = new TextEncoder().encode('x'.repeat(64 * KIB));
    let parts = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        parts += 1;
        if (parts > 40) controller.close();
        else controller.enqueue(part);
      },
    });
    const answer = send('/api/v1/vcp/sites', { method: 'POST', headers: JSON_TYPE, body });
    await expectError(await answer, 401, 'UNAUTHORIZED');
  });
});

describe('a body with an accepted credential', () => {
  it('is read to its end, with and without a length, up to 1 MiB [C-4.7] [C-15.7]', async ({ team }) => {
    const fields = { name: 'Plant', note: 'x'.repeat(900 * KIB) };
    for (const body of [JSON.stringify(fields), new Response(JSON.stringify(fields)).body as BodyInit]) {
      const headers = {
        ...JSON_TYPE,
        authorization: `Bearer ${team.operator.accessToken}`,
        'x-org-id': team.id,
      };
      const { details } = await expectError(
        await send('/api/v1/plants', { method: 'POST', headers, body }),
        400,
        'VALIDATION_ERROR',
      );
      expect(details).toEqual([expect.stringContaining('note')]);
    }
  });
});

describe('a body of a public route', () => {
  it.for(PUBLIC.map((route) => [nameOf(route), route] as const))(
    'has at most its size: %s [C-15.7]',
    async ([_name, route]) => {
      const most = route.path === REPORT ? REPORT_BYTES : PUBLIC_BYTES;
      const post = (body: BodyInit) => send(route.path, { method: 'POST', headers: JSON_TYPE, body });
      for (const inParts of [false, true]) {
        const body = (bytes: number) =>
          inParts ? (new Response(jsonOf(bytes)).body as BodyInit) : jsonOf(bytes);
        expect([inParts, (await post(body(most))).status]).not.toEqual([inParts, 413]);
        await expectError(await post(body(most + 1)), 413, 'PAYLOAD_TOO_LARGE');
      }
    },
  );

  it('is counted with all unfinished bodies of its address, at most 256 KiB together [C-15.7]', async ({
    from,
  }) => {
    const login = '/api/v1/auth/login';
    const held = Array.from(
      { length: ADDRESS_BYTES / PUBLIC_BYTES },
      () => new Unfinished(jsonOf(PUBLIC_BYTES).slice(0, -1)),
    );
    const waiting = held.map(({ body }) =>
      from(1, login, { body, headers: { 'content-length': String(PUBLIC_BYTES) } }),
    );
    await expect.poll(() => held.every(({ pulls }) => pulls >= 2)).toBe(true);
    const refused = await from(1, login, { body: jsonOf(PUBLIC_BYTES) });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    await expectError(refused, 429, 'TOO_MANY_REQUESTS');
    await expectError(await from(2, login, { body: jsonOf(PUBLIC_BYTES) }), 400, 'VALIDATION_ERROR');
    for (const one of held) one.finish('}');
    for (const answer of waiting) await expectError(await answer, 400, 'VALIDATION_ERROR');
    await expectError(await from(1, login, { body: jsonOf(PUBLIC_BYTES) }), 400, 'VALIDATION_ERROR');
  });

  it('is counted no longer once its client has gone [C-15.7]', async ({ from }) => {
    const login = '/api/v1/auth/login';
    for (let round = 0; round < 2 * (ADDRESS_BYTES / PUBLIC_BYTES); round++) {
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(new TextEncoder().encode(jsonOf(PUBLIC_BYTES).slice(0, -1)));
        },
        pull(controller) {
          controller.error(new Error('the client has gone'));
        },
      });
      await from(1, login, { body }).catch(() => {});
    }
    await expectError(await from(1, login, { body: jsonOf(PUBLIC_BYTES) }), 400, 'VALIDATION_ERROR');
  });
});
