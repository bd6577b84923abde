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
    await page.getByText('List dead letters').first().waitFor();
  });
  afterAll(() => browser?.close());

  it('finds routes by a part of their path, and shows their fields and error codes', async () => {
    // The page has only the routes that are in view.
    await page.getByPlaceholder('Filter by tag or path').fill('/devices');
    await page.getByText('List dead letters').waitFor({ state: 'detached' });
    await page.getByText('Register a device').first().click();
    for (const part of ['The serial number, unique', 'PLANT_NOT_FOUND'])
      await page.getByText(part).first().waitFor();
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
    const first = await fetch(`${stack.edge.url}${PATH}/viewer.js`);
    const tag = first.headers.get('etag') ?? '';
    await first.arrayBuffer();
    const again = await fetch(`${stack.edge.url}${PATH}/viewer.js`, { headers: { 'if-none-match': tag } });
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
