/** Who sees and does what in the console: roles, other organizations, and the cookies of the session. */
import { randomUUID } from 'node:crypto';
import type { BrowserContext, Page } from 'playwright-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';
import type { OrganizationRecord } from '../../protocol/organization.ts';
import { AdminClient, type Login } from '../../tools/admin-client.ts';
import { World } from '../../tools/reference/rest-calls/world.ts';

const stack = consoleStack();
const VIEWER = { email: 'viewer@example.com', password: 'correct horse battery' };
const OTHER = { email: 'other@example.com', password: 'correct horse battery' };
const LOGIN = /^Log in$/;

/** Sends a call that needs no login. */
async function send<Answer>(path: string, body: unknown): Promise<Answer> {
  const response = await fetch(`${stack.url}/api/v1${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Answer;
}

const mailedToken = (email: string) => new World(stack.described, {}).mailedToken(email, 0);

async function inviteViewer(): Promise<void> {
  const { baseUrl, admin, organization } = stack.described;
  const client = await AdminClient.enter(baseUrl, admin);
  const path = `/organizations/${organization.id}/invitations`;
  await client.call('POST', path, { email: VIEWER.email, role: 'VIEWER' });
  const token = await mailedToken(VIEWER.email);
  const accepted = { token, confirm: true, name: 'Vera Viewer', password: VIEWER.password };
  await send('/invitations/accept', accepted);
}

/** Registers another organization with one site; the user is its ORG_ADMIN. Returns the id of the site. */
async function registerOther(): Promise<string> {
  const organization = { organizationName: 'Borealis Energy', organizationSlug: 'borealis' };
  await send('/auth/register', { ...OTHER, name: 'Olga Other', ...organization });
  await send('/auth/verify-email', { token: await mailedToken(OTHER.email) });
  const client = await clientOf(OTHER);
  return (await client.call<{ id: string }>('POST', '/plants', { name: 'Borealis Mill' })).id;
}

/** A client of the only organization of a user. */
async function clientOf(login: Login): Promise<AdminClient> {
  const client = await AdminClient.enter(stack.url, login);
  const [own] = await client.list<OrganizationRecord>('/organizations');
  client.organizationId = own?.id;
  return client;
}

describe.skipIf(!HAS_BROWSER)('what people see in the console', () => {
  let page: Page;
  let context: BrowserContext;
  let otherPlantId: string;

  const open = async (login: Login, path: string) => {
    ({ page, context } = await stack.loggedIn(path, login));
  };
  const show = async (path: string, shown: string) => {
    await page.goto(`${stack.url}${path}`);
    await page.getByText(shown, { exact: true }).first().waitFor();
  };
  /** The names of all buttons of the screen, without those of the navigation. */
  const buttons = () => page.getByRole('main').getByRole('button').allInnerTexts();
  const links = () => page.getByRole('navigation').locator('.links a').allInnerTexts();

  beforeAll(async () => {
    await inviteViewer();
    otherPlantId = await registerOther();
  }, 60_000);
  afterEach(() => context.close());

  describe('a VIEWER', () => {
    beforeEach(() => open(VIEWER, '/sites'), 60_000);

    it('has no link to keys, webhooks and the audit, and an ORG_ADMIN has', async () => {
      const privileged = ['Keys', 'Webhooks', 'Audit'];
      const own = await links();
      expect(own).toEqual(expect.arrayContaining(['Sites', 'Events', 'Alerts', 'Devices', 'Members']));
      expect(own.filter((name) => privileged.includes(name))).toEqual([]);
      await context.close();
      await open(stack.described.admin, '/sites');
      expect(await links()).toEqual(expect.arrayContaining(privileged));
    });

    it('cannot create a site or register a device', async () => {
      await page.getByRole('link', { name: 'Acme Dairy' }).waitFor();
      expect(await buttons()).toEqual([]);
      await show('/devices', 'GATEWAY');
      expect(await buttons()).toEqual([]);
      const gateway = page.getByRole('rowheader').getByRole('link');
      await gateway.click();
      await page.getByRole('heading', { name: 'Steps' }).waitFor();
      expect(await buttons()).toEqual([]);
    });

    it('sees alert rules and device templates, but makes and changes none', async () => {
      const admin = await clientOf(stack.described.admin);
      const rule = { name: 'Seen by all', severity: 'INFO', metric: 'gridPowerKw', operator: 'GT' };
      await admin.call('POST', '/alerts', { ...rule, threshold: -100_000, plantId: stack.plantId });
      await show('/alerts', 'Seen by all');
      // Also an alert that is active has no button for a VIEWER.
      await page.getByText(/^Seen by all: gridPowerKw is/).waitFor();
      expect(await buttons()).toEqual([]);
      await admin.call('POST', '/device-templates', { name: 'Own template', assetType: 'BESS' });
      await show('/device-templates', 'Own template');
      expect(await buttons()).toEqual([]);
    });

    it('sees the site live without the control', async () => {
      await show(`/sites/${stack.plantId}`, 'live');
      await page.getByRole('heading', { name: 'Plan and power' }).waitFor();
      expect(await page.getByRole('heading', { name: 'Control' }).count()).toBe(0);
      const ranges = ['15m', '1h', '6h', '1d', '7d', '30d', '90d'];
      await expect.poll(buttons, { timeout: 5_000 }).toEqual(ranges);
    });

    it('cannot run a command again as a dry run', async () => {
      const admin = await clientOf(stack.described.admin);
      const sent = { family: 'mode', payload: { mode: 'STANDARD' }, idempotencyKey: randomUUID() };
      const at = `/plants/${stack.plantId}/commands`;
      const { commandId } = await admin.call<{ commandId: string }>('POST', at, sent);
      await show(`/sites/${stack.plantId}/commands/${commandId}`, 'Life of the command');
      expect(new Set(await buttons())).toEqual(new Set(['Copy']));
    });

    it('sees the members, but changes and invites none', async () => {
      await show('/members', 'Vera Viewer');
      expect(await buttons()).toEqual([]);
      expect(await page.getByText('Change', { exact: true }).count()).toBe(0);
      expect(await page.getByRole('heading', { name: 'Invitations' }).count()).toBe(0);
    });

    it('reads the settings of the organization, but changes none', async () => {
      await show('/organization', 'Commands must be signed');
      expect(await buttons()).toEqual([]);
      expect(await page.getByRole('main').getByRole('textbox').count()).toBe(0);
    });

    it('who opens the address of the keys or of the audit reads that this is not for them', async () => {
      await show('/keys', 'You may not see this');
      expect(await buttons()).toEqual([]);
      await show(`/keys/${stack.described.apiKey.id}`, 'You may not see this');
      expect(await buttons()).toEqual([]);
      await show('/audit', 'You may not see this');
      expect(await buttons()).toEqual([]);
    });

    it('gets 403 from the API for what the console hides', async () => {
      const viewer = await clientOf(VIEWER);
      const admin = await clientOf(stack.described.admin);
      const made = async (path: string, body: object) =>
        (await admin.call<{ id: string }>('POST', path, body)).id;
      const rule = {
        name: 'A rule',
        severity: 'INFO',
        metric: 'gridPowerKw',
        operator: 'GT',
        threshold: 1e5,
      };
      const ruleId = await made('/alerts', rule);
      const templateId = await made('/device-templates', { name: 'A template', assetType: 'BESS' });
      const { plantId } = stack;
      const gateway = `/devices/${stack.described.plants[0]?.gatewayId}`;
      const payload = { mode: 'STANDARD' };
      const device = { name: 'Spare', serialNumber: 'GW-SPARE-1', type: 'GATEWAY', authMethod: 'TOKEN' };
      const key = { name: 'Own key', partnerId: 'own', scopes: ['vcp:read'] };
      const webhook = {
        url: 'https://hooks.example.com/a',
        keyId: stack.described.apiKey.id,
        types: ['ack'],
      };
      const webhookId = (await admin.call<{ webhook: { id: string } }>('POST', '/partner/webhooks', webhook))
        .webhook.id;
      const organization = `/organizations/${stack.described.organization.id}`;
      const calls: [method: string, path: string, body?: unknown][] = [
        ['POST', '/plants', { name: 'Own site' }],
        ['POST', `/plants/${plantId}/commands`, { family: 'mode', payload, idempotencyKey: randomUUID() }],
        ['POST', `/plants/${plantId}/commands/dry-run`, { family: 'mode', payload }],
        ['POST', '/devices', device],
        ['PATCH', gateway, { plantId: null }],
        ['POST', `${gateway}/certificate`, {}],
        ['POST', '/device-templates', { name: 'Own template', assetType: 'BESS' }],
        ['PATCH', `/device-templates/${templateId}`, { name: 'Other name' }],
        ['DELETE', `/device-templates/${templateId}`],
        ['POST', '/alerts', { ...rule, name: 'Another rule' }],
        ['PATCH', `/alerts/${ruleId}`, { enabled: false }],
        ['POST', `${gateway}/provision`, {}],
        ['POST', `${gateway}/rotate-secret`],
        ['POST', `${gateway}/suspend`, { reason: 'a test' }],
        ['GET', `${gateway}/diagnostics`],
        ['GET', '/partner/api-keys'],
        ['POST', '/partner/api-keys', key],
        ['DELETE', `/partner/api-keys/${stack.described.apiKey.id}`],
        ['GET', '/partner/webhooks'],
        ['POST', `/partner/webhooks/${webhookId}/test`],
        ['POST', `/partner/webhooks/${webhookId}/resend`, { sequence: 1 }],
        ['POST', `/partner/webhooks/${webhookId}/recover`, { since: new Date().toISOString() }],
        ['DELETE', `/partner/webhooks/${webhookId}`],
        ['GET', `/vcp/dead-letters?keyId=${stack.described.apiKey.id}`],
        ['POST', `${gateway}/mqtt-token`, {}],
        ['POST', `${gateway}/revoke`],
        ['POST', '/partner/webhooks', webhook],
        ['GET', '/audit-events'],
        ['PATCH', organization, { name: 'Own name' }],
        ['POST', `${organization}/invitations`, { email: 'third@example.com', role: 'VIEWER' }],
      ];
      const answers = await Promise.all(
        calls.map(async ([method, path, body]) => {
          const { status } = await viewer.ask(method, path, body);
          return `${method} ${path} ${status}`;
        }),
      );
      expect(answers).toEqual(calls.map(([method, path]) => `${method} ${path} 403`));
      // The same login may read.
      expect((await viewer.ask('GET', `/plants/${plantId}`)).status).toBe(200);
    });
  });

  describe('a member of another organization', () => {
    beforeEach(() => open(OTHER, `/sites/${stack.plantId}`), 60_000);

    it('who opens the address of a site reads that there is no such page', async () => {
      await page.getByText('There is no such page').waitFor();
      expect(new URL(page.url()).pathname).toBe(`/sites/${stack.plantId}`);
      expect(await page.getByRole('main').innerText()).not.toContain('Acme');
      expect(await buttons()).toEqual([]);
    });

    it('reads the same for a site that does not exist', async () => {
      await page.getByText('There is no such page').waitFor();
      const foreign = await page.getByRole('main').innerText();
      await show(`/sites/${randomUUID()}`, 'There is no such page');
      expect(await page.getByRole('main').innerText()).toBe(foreign);
    });

    it('reads the same for a device and a key of the first organization', async () => {
      await show(`/devices/${stack.described.plants[0]?.gatewayId}`, 'There is no such page');
      await show(`/keys/${stack.described.apiKey.id}`, 'There is no such page');
    });

    it('sees only the own sites', async () => {
      await show('/sites', 'Borealis Mill');
      expect(await page.locator('tbody tr').count()).toBe(1);
      await show(`/sites/${otherPlantId}`, 'Control');
    });
  });

  describe('the session', () => {
    const cookies = async () =>
      (await context.cookies(`${stack.url}/api/v1/auth/refresh`)).map(({ name }) => name);
    const openScreen = (name: string) =>
      page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
    const loginButtons = () => page.getByRole('button', { name: LOGIN }).count();

    beforeEach(async () => {
      await open(stack.described.admin, '/sites');
      // The row has read its values: no call of the screen is on its way.
      await page.locator('.sparkline').waitFor();
    }, 60_000);

    it('has cookies that no script can read', async () => {
      const all = await context.cookies(`${stack.url}/api/v1/auth/refresh`);
      expect(all.map(({ name, httpOnly }) => [name, httpOnly])).toEqual(
        expect.arrayContaining([
          ['access_token', true],
          ['refresh_token', true],
        ]),
      );
      await context.addCookies([{ name: 'own', value: '1', url: stack.url }]);
      expect(await page.evaluate(() => document.cookie)).toBe('own=1');
    });

    it('stores no token where a script can read it', async () => {
      const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
      for (const { value } of await context.cookies(`${stack.url}/api/v1/auth/refresh`))
        expect(stored).not.toContain(value);
    });

    it('goes on without its access token: the refresh token renews it', async () => {
      await context.clearCookies({ name: 'access_token' });
      expect(await cookies()).not.toContain('access_token');
      await openScreen('Devices');
      await page.getByRole('cell', { name: 'GATEWAY' }).waitFor();
      expect(await loginButtons()).toBe(0);
      expect(await cookies()).toEqual(expect.arrayContaining(['access_token', 'refresh_token']));
    });

    it('goes on without its access token when the page is loaded again', async () => {
      await context.clearCookies({ name: 'access_token' });
      await page.reload();
      await page.getByRole('link', { name: 'Acme Dairy' }).waitFor();
      expect(await loginButtons()).toBe(0);
    });

    it('goes on in two pages that find the access token gone at the same time', async () => {
      const second = await context.newPage();
      await second.goto(`${stack.url}/sites`);
      await second.getByRole('link', { name: 'Acme Dairy' }).waitFor();
      await context.clearCookies({ name: 'access_token' });
      const members = (one: Page) => one.getByRole('navigation').getByRole('link', { name: 'Members' });
      await Promise.all([page, second].map((one) => members(one).click()));
      for (const one of [page, second])
        await one.getByRole('cell', { name: stack.described.admin.email }).waitFor();
    });

    it('has ended without its cookies: the next screen is the login, which says so', async () => {
      await context.clearCookies();
      await openScreen('Audit');
      await page.getByText('Your session has ended. Log in again.').waitFor();
      expect(await loginButtons()).toBe(1);
      expect(await page.getByRole('navigation').count()).toBe(0);
      await page.getByLabel('E-mail').fill(stack.described.admin.email);
      await page.getByLabel('Password').fill(stack.described.admin.password);
      await page.getByRole('button', { name: LOGIN }).click();
      // The login leads to the screen that was asked for.
      await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    });

    it('ends with the button Log out, and its cookies and its login with it', async () => {
      const old = await context.cookies(stack.url);
      const headers = { cookie: old.map(({ name, value }) => `${name}=${value}`).join('; ') };
      const me = async () => (await fetch(`${stack.url}/api/v1/auth/me`, { headers })).status;
      expect(await me()).toBe(200);
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByRole('button', { name: LOGIN }).waitFor();
      expect(await page.getByText('Your session has ended').count()).toBe(0);
      const left = await cookies();
      for (const name of ['access_token', 'refresh_token']) expect(left).not.toContain(name);
      expect(await me()).toBe(401);
    });
  });
});
