/** The console's page and files: who gets them, under which policy, and how long a browser may keep them. */
import { restRequest, send, sendRequest } from '#workerd/rest.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';

const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

describe('a browser that opens an address', () => {
  it.each(['/', '/sites', '/sites/no-such-site/commands/x', '/no/such/page'])(
    'gets the page at %s, so that each address can be opened again',
    async (path) => {
      const response = await send(path, { headers: BROWSER });
      expect([response.status, response.headers.get('content-type')]).toEqual([
        200,
        'text/html; charset=utf-8',
      ]);
      expect(await response.text()).toContain('<div id="app">');
    },
  );

  it('gets a policy without foreign origins, inline code and trusted markup', async () => {
    const response = await send('/', { headers: BROWSER });
    const policy = response.headers.get('content-security-policy') ?? '';
    for (const rule of ["default-src 'self'", "require-trusted-types-for 'script'", "frame-ancestors 'none'"])
      expect(policy).toContain(rule);
    expect(policy).not.toMatch(/unsafe-inline|unsafe-eval|https?:/);
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    await response.text();
  });

  it('gets 304 for the page that it has', async () => {
    const first = await send('/', { headers: BROWSER });
    const tag = first.headers.get('etag') ?? '';
    expect(first.headers.get('cache-control')).toBe('no-cache');
    await first.text();
    const again = await sendRequest(restRequest('/sites', { headers: { ...BROWSER, 'if-none-match': tag } }));
    expect([again.status, await again.text()]).toEqual([304, '']);
  });

  it('gets the error of the API below /api, and for its own paths', async () => {
    for (const path of ['/api/v1/nothing', '/api', '/link/nothing', '/console/nothing'])
      await expectError(await send(path, { headers: BROWSER }), 404, 'NOT_FOUND');
  });
});

describe('any other client', () => {
  it.each([
    ['GET', '*/*'],
    ['GET', 'application/json'],
    ['POST', 'text/html'],
    ['PUT', 'text/html'],
  ])('gets 404 as JSON for %s with Accept: %s', async (method, accept) => {
    await expectError(await send('/sites', { method, headers: { accept } }), 404, 'NOT_FOUND');
  });
});

describe('the files of the page', () => {
  it('may be kept for ever, because their names change with them', async () => {
    const page = await (await send('/', { headers: BROWSER })).text();
    const files = [...page.matchAll(/"(\/console\/[^"]+)"/g)].map(([, file = '']) => file);
    expect(files).toHaveLength(2);
    for (const file of files) {
      const response = await send(file);
      expect([response.status, response.headers.get('cache-control')]).toEqual([
        200,
        'public, max-age=31536000, immutable',
      ]);
      expect(response.headers.get('content-type')).toMatch(/^text\/(javascript|css); charset=utf-8$/);
      await response.text();
    }
  });

  it('are 404 under the name of an earlier build, or of another static file', async () => {
    for (const file of ['console-AAAAAAAA.js', 'openapi.json', '..%2Fopenapi.json', 'console.html'])
      await expectError(await send(`/console/${file}`), 404, 'NOT_FOUND');
  });
});
