/** The API documents and their pages are static files: a request for one costs the Worker nothing [C-15.7]. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { suiteStack } from '#support/suite-stack.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const PER_MINUTE = 100;
const PATHS: [path: string, type: RegExp][] = [
  ['/api/v1/openapi.json', /^application\/json/],
  ['/api/v1/asyncapi.json', /^application\/json/],
  ['/api/v1/docs', /^text\/html/],
  ['/api/v1/docs/viewer.js', /^text\/javascript/],
  ['/api/v1/docs/viewer.css', /^text\/css/],
  ['/api/v1/docs/start.js', /^text\/javascript/],
  ['/docs', /^text\/html/],
  ['/docs/rest-calls', /^text\/html/],
  ['/docs/errors', /^text\/html/],
  ['/docs/amqp', /^text\/html/],
  ['/docs/mqtt', /^text\/html/],
  ['/docs/pages.css', /^text\/css/],
];

const stack = suiteStack({
  bindings: { CLIENT_ADDRESS: 'platform', ADDRESS_RATE_PER_MINUTE: String(PER_MINUTE) },
});

let host = 0;

/** Requests of an address that no other test uses. */
function newClient() {
  host += 1;
  const address = `203.0.113.${host}`;
  return (path: string, init: RequestInit = {}) =>
    fetch(`${stack.edge.url}${path}`, { ...init, headers: { ...init.headers, 'cf-connecting-ip': address } });
}

describe('a request of a document', () => {
  it.each(PATHS)('does not count towards the requests of its address: %s [C-15.7]', async (path) => {
    const ask = newClient();
    const statuses = new Set<number>();
    for (let count = 0; count <= PER_MINUTE; count++) {
      const answer = await ask(path, { method: 'HEAD' });
      statuses.add(answer.status);
    }
    expect([...statuses]).toEqual([200]);
    const headers = { 'x-api-key': stack.credentials.apiKey.key };
    expect((await ask('/api/v1/vcp/sites', { headers })).status).toBe(200);
  });

  it.each(PATHS)('gets what it got from the Worker: %s [C-14.2] [C-15.7]', async (path, type) => {
    const ask = newClient();
    const answer = await ask(path);
    const { headers } = answer;
    expect([answer.status, headers.get('cache-control')]).toEqual([200, 'no-cache']);
    expect(headers.get('content-type')).toMatch(type);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    // Only the Worker makes one.
    expect(headers.get('x-request-id')).toBeNull();
    expect((await answer.text()).length).toBeGreaterThan(100);
    const known = await ask(path, { headers: { 'if-none-match': headers.get('etag') ?? '' } });
    expect([known.status, await known.text()]).toEqual([304, '']);
  });

  it('is answered while the Worker refuses its address [C-15.7]', async () => {
    const ask = newClient();
    for (let count = 0; count < PER_MINUTE; count++) await (await ask('/api/v1/vcp/sites')).arrayBuffer();
    expect((await ask('/api/v1/vcp/sites')).status).toBe(429);
    for (const [path] of PATHS)
      expect([path, (await ask(path, { method: 'HEAD' })).status]).toEqual([path, 200]);
  });
});

describe('wrangler.toml', () => {
  const text = readFileSync(join(ROOT, 'wrangler.toml'), 'utf8');
  const first: unknown = JSON.parse(/^run_worker_first = (true|false|\[[^\]]*\])/m.exec(text)?.[1] ?? 'null');

  it('keeps the documents from the Worker, and nothing else of the API [C-15.7]', () => {
    expect(first).toEqual(expect.any(Array));
    const rules = first as string[];
    for (const [path] of PATHS) {
      const kept = rules.filter((rule) => rule.startsWith('!')).map((rule) => rule.slice(1));
      const isKept = kept.some(
        (rule) => rule === path || (rule.endsWith('/*') && path.startsWith(rule.slice(0, -1))),
      );
      expect([path, isKept]).toEqual([path, true]);
    }
    expect(rules).toContain('/*');
    expect(rules.filter((rule) => rule.startsWith('!') && !/openapi|asyncapi|docs/.test(rule))).toEqual([]);
  });

  it.each(PATHS)('has a file at the path %s [C-15.7]', (path) => {
    const folder = join(ROOT, 'dist', 'assets');
    const files = [path, `${path}.html`, `${path}/index.html`].map((file) => join(folder, file));
    expect(files.some((file) => existsSync(file) && !file.endsWith('/docs'))).toBe(true);
  });
});
