/**
 * The API documents are made once, and a client that has the current one does not get it again [C-14.2]. No cache may
 * keep any other answer.
 */
import { vi } from 'vitest';
import { restRequest, send, sendRequest } from '#workerd/rest.ts';
import { callRoute, nameOf, pathWith } from '#workerd/routes.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { ROUTES } from '../../worker/app.ts';

const DOCUMENTS = ['/api/v1/openapi.json', '/api/v1/asyncapi.json'];
const OTHERS = ROUTES.filter(({ path }) => path.startsWith('/api/v1/') && !DOCUMENTS.includes(path));
const PRIVATE = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};

describe.each(DOCUMENTS)('%s', (path) => {
  it('has the same body and ETag each time, and Cache-Control: no-cache [C-14.2]', async () => {
    const [one, other] = [await send(path), await send(path)];
    const tag = one.headers.get('etag');
    expect(tag).toMatch(/^"[0-9a-f]{32}"$/);
    expect(other.headers.get('etag')).toBe(tag);
    expect(one.headers.get('cache-control')).toBe('no-cache');
    expect(await other.text()).toBe(await one.text());
  });

  it('answers 304 without a body if If-None-Match names its ETag, and 200 if it names only others [C-14.2]', async () => {
    const tag = (await send(path)).headers.get('etag') ?? '';
    const ask = (known: string) => sendRequest(restRequest(path, { headers: { 'if-none-match': known } }));
    const response = await ask(tag);
    expect([response.status, await response.text(), response.headers.get('etag')]).toEqual([304, '', tag]);
    expect((await ask(`"other", ${tag}`)).status).toBe(304);
    expect((await ask('"other"')).status).toBe(200);
  });
});

describe('an answer that is not an API document', () => {
  it.for(OTHERS.map((route) => [nameOf(route), route] as const))(
    'has, for %s, Cache-Control: no-store and a CSP that blocks everything, with and without a credential (spec: Errors)',
    async ([_name, route], { callers }) => {
      vi.spyOn(console, 'warn').mockReturnValue(undefined);
      const path = pathWith(route, { organizations: callers.team.id });
      for (const caller of ['no credential', 'an ORG_ADMIN', 'a key with the scope'] as const) {
        const { headers } = await callRoute(route, path, await callers.headersOf(caller, route));
        expect([caller, Object.fromEntries(headers)]).toEqual([caller, expect.objectContaining(PRIVATE)]);
      }
    },
  );

  it('to an unknown path, wrong method, malformed JSON or too large body has the same two headers (spec: Errors)', async () => {
    const post = (body: string) => {
      const headers = { 'content-type': 'application/json' };
      return send('/api/v1/auth/login', { method: 'POST', headers, body });
    };
    const answers = [
      await send('/api/v1/no-such-path'),
      await send('/api/v1/auth/login', { method: 'PUT' }),
      await post('{'),
      await post(`"${'x'.repeat(1024 * 1024)}"`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 405, 400, 413]);
    for (const { headers } of answers) expect(Object.fromEntries(headers)).toMatchObject(PRIVATE);
  });

  it('has an x-request-id that the Worker generates, even if the client sends one (spec: Errors)', async () => {
    const headers = { 'x-request-id': 'chosen-by-the-client' };
    const response = await sendRequest(restRequest('/api/v1/auth/me', { headers }));
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });
});
