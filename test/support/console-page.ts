/** The console in a real browser, on a stack as `npm start` runs it. */
import { existsSync } from 'node:fs';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { freePort } from '../../tools/ports.ts';
import type { Stack } from '../../tools/stack-file.ts';
import { cleanUp, newFolder, run, start } from './dev-stack.ts';

const CHROMIUM = '/usr/bin/chromium';
export const HAS_BROWSER = existsSync(CHROMIUM);
if (!HAS_BROWSER)
  console.warn(`the tests of the console are skipped: install Debian's package chromium (${CHROMIUM})`);

/** What the browser had to say about a page: errors, warnings, and requests to elsewhere. */
export interface Watched {
  page: Page;
  complaints: string[];
  foreign: string[];
}

export class ConsoleStack {
  described!: Stack;
  browser!: Browser;
  readonly folder = newFolder();

  async begin(): Promise<void> {
    // A port that is known before, so that mails link to the console.
    const port = String(await freePort());
    ({ described: this.described } = await start(this.folder, { SITEWIRE_HTTP_PORT: port }));
    this.browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  }

  async end(): Promise<void> {
    await this.browser?.close();
    await cleanUp();
  }

  get url(): string {
    return this.described.baseUrl;
  }

  get plantId(): string {
    return this.described.plants[0]?.id ?? '';
  }

  /** A browser of its own, with a page that is watched. */
  async open(
    options: Parameters<Browser['newContext']>[0] = {},
  ): Promise<Watched & { context: BrowserContext }> {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const page = await context.newPage();
    const [complaints, foreign]: [string[], string[]] = [[], []];
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => {
      if (!request.url().startsWith(this.url) && !/^(data|blob):/.test(request.url()))
        foreign.push(request.url());
    });
    return { page, complaints, foreign, context };
  }

  /** A page of a person who has logged in; without one of the admin of the seeded organization. */
  async loggedIn(
    path = '/sites',
    { email, password }: { email: string; password: string } = this.described.admin,
    options: Parameters<Browser['newContext']>[0] = {},
  ) {
    const opened = await this.open(options);
    await logIn(opened.page, this.url, path, email, password);
    return opened;
  }

  /** Changes the behaviour of the simulated plant, as `npm run sitewire -- simulate` does. */
  async behave(behaviour: string): Promise<void> {
    await run('simulator.ts', this.folder, {}, [behaviour]).ended;
  }

  /** A call of the API by the admin. */
  async call<Answer>(
    path: string,
    init: { method?: string; body?: unknown; token?: string } = {},
  ): Promise<Answer> {
    const { method = 'GET', body, token = await this.#token() } = init;
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        'x-org-id': this.described.organization.id,
        'content-type': 'application/json',
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer = (await response.json()) as Answer;
    if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  }

  async #token(): Promise<string> {
    const response = await fetch(`${this.url}/api/v1/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(this.described.admin),
    });
    return ((await response.json()) as { accessToken: string }).accessToken;
  }
}

export async function logIn(
  page: Page,
  url: string,
  path: string,
  email: string,
  password: string,
): Promise<void> {
  await page.goto(`${url}${path}`);
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('navigation').waitFor();
}

/** A stack with a browser, for the tests of one file. */
export function consoleStack(): ConsoleStack {
  const stack = new ConsoleStack();
  beforeAll(async () => {
    if (HAS_BROWSER) await stack.begin();
  }, 120_000);
  afterAll(() => stack.end(), 30_000);
  return stack;
}

export interface Setpoint {
  kw: number;
  priority: 'NORMAL' | 'HIGH';
  seconds?: number;
}

/** Sends a setpoint from the page of a site, through its dry run. Returns what the dialog said. */
export async function sendSetpoint(page: Page, { kw, priority, seconds }: Setpoint): Promise<string> {
  await page.getByLabel('Power in kW').fill(String(kw));
  await page.getByLabel('Priority').selectOption(priority);
  await page.getByLabel('For how many seconds').fill(seconds === undefined ? '' : String(seconds));
  await page.getByRole('button', { name: 'Show what would happen' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  const said = await dialog.innerText();
  const send = dialog.getByRole('button', { name: 'Send', exact: true });
  if (await send.isVisible()) {
    await send.click();
    await dialog.getByRole('status').waitFor();
  }
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  return said;
}
