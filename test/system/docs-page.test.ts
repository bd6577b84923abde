/** The reference page in a real browser: it shows the API, loads nothing from elsewhere, and breaks no policy. */
import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { suiteStack } from '#support/suite-stack.ts';

const CHROMIUM = '/usr/bin/chromium';
const PATH = '/api/v1/docs';

const stack = suiteStack();

describe.skipIf(!existsSync(CHROMIUM))('the reference page (install chromium to run these)', () => {
  let browser: Browser;
  let page: Page;
  const requests: string[] = [];
  const complaints: string[] = [];

  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
    page = await browser.newPage();
    page.on('request', (request) => requests.push(request.url()));
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(`${stack.edge.url}${PATH}`);
    await page.getByRole('heading', { name: 'List sites with their sub-devices' }).first().waitFor();
  });
  afterAll(() => browser?.close());

  it('shows tags, routes, descriptions and error codes', async () => {
    const text = await page.locator('body').innerText();
    for (const part of [
      'Device templates',
      'Register a device',
      'PLANT_NOT_FOUND',
      'The serial number, unique',
    ]) {
      expect(text).toContain(part);
    }
  });

  it('finds a route by a word', async () => {
    await page.getByPlaceholder('Search...').fill('rotate');
    await page.locator('[role="menu"] >> text=/secret/i').first().waitFor();
  });

  it('loads only from its own origin, and the browser has nothing to complain of', () => {
    const foreign = requests.filter((url) => !url.startsWith(stack.edge.url) && !/^(data|blob):/.test(url));
    expect(foreign).toEqual([]);
    expect(requests.length).toBeGreaterThanOrEqual(4);
    expect(complaints).toEqual([]);
  });
});

describe('the files of the reference page', () => {
  it('is not sent again to a browser that has it', async () => {
    const first = await fetch(`${stack.edge.url}${PATH}/redoc.js`);
    const tag = first.headers.get('etag') ?? '';
    await first.arrayBuffer();
    const again = await fetch(`${stack.edge.url}${PATH}/redoc.js`, { headers: { 'if-none-match': tag } });
    expect([again.status, await again.text()]).toEqual([304, '']);
  });

  it('has no other files', async () => {
    for (const file of ['openapi.json', 'docs.html', '..%2f..%2fwrangler.toml', 'x']) {
      const response = await fetch(`${stack.edge.url}${PATH}/${file}`);
      expect([file, response.status]).toEqual([file, 404]);
    }
  });

  it('are only for reading [C-10]', async () => {
    const url = `${stack.edge.url}${PATH}`;
    const posted = await fetch(url, { method: 'POST' });
    expect(posted.status).toBe(405);
    const page = await fetch(url);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  });
});
