/** The API documents are made once, and a client that has the current one does not get it again [C-14.2]. */
import { restRequest, send, settle } from '#workerd/rest.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';

describe.each(['/api/v1/openapi.json', '/api/v1/asyncapi.json'])('%s', (path) => {
  it('has the same ETag each time; a cache may keep it and must revalidate it (no-cache) [C-14.2]', async () => {
    const [one, other] = [await send(path), await send(path)];
    const tag = one.headers.get('etag');
    expect(tag).toMatch(/^"[0-9a-f]{32}"$/);
    expect(other.headers.get('etag')).toBe(tag);
    expect(one.headers.get('cache-control')).toBe('no-cache');
    expect(await other.text()).toBe(await one.text());
  });

  it('answers 304 without a body if If-None-Match names its ETag, and 200 if it names only others [C-14.2]', async () => {
    const tag = (await send(path)).headers.get('etag') ?? '';
    const ask = (known: string) => settle(restRequest(path, { headers: { 'if-none-match': known } }));
    const response = await ask(tag);
    expect([response.status, await response.text(), response.headers.get('etag')]).toEqual([304, '', tag]);
    expect((await ask(`"other", ${tag}`)).status).toBe(304);
    expect((await ask('"other"')).status).toBe(200);
  });
});

describe('any other answer', () => {
  it('must not be kept by a cache, and lets a browser load nothing (spec: Errors)', async () => {
    const { headers } = await send('/api/v1/auth/me');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('content-security-policy')).toBe("default-src 'none'; frame-ancestors 'none'");
  });

  it('has a request id of our own, not the one that a client sends (spec: Errors)', async () => {
    const headers = { 'x-request-id': 'chosen-by-the-client' };
    const response = await settle(restRequest('/api/v1/auth/me', { headers }));
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });
});
