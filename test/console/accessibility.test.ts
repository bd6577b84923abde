/**
 * Each screen and each dialog of the console, in light and in dark colours, as axe-core judges it. axe-core sees about half
 * of what a person finds, such as contrast, names and roles; `keyboard.test.ts` has the rest.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';
import { AdminClient } from '../../tools/admin-client.ts';
import { World } from '../../tools/reference/rest-calls/world.ts';

const stack = consoleStack();
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const GRAVE = ['serious', 'critical'];
const SCHEMES = ['light', 'dark'] as const;
type Scheme = (typeof SCHEMES)[number];
const UNHEARD = 'http://127.0.0.1:9/hook';

/** What the screens show: one of each kind, also of the kinds that a new stack does not have. */
interface Shown {
  commandId: string;
  /** The token of an invitation. */
  invitation: string;
  /** A device that logs in with a certificate. */
  certified: string;
  /** A device that is not provisioned, for each of the colour schemes. */
  spares: Record<Scheme, string>;
}

interface Screen {
  name: string;
  path: (shown: Shown, scheme: Scheme) => string;
  /** Waits until the screen shows its data. */
  ready: (page: Page) => Promise<unknown>;
}

const row = (page: Page) => page.locator('tbody tr').first().waitFor();
const panel = (page: Page, name: string) => page.getByRole('region', { name, exact: true });

const SCREENS: readonly Screen[] = [
  {
    name: '/sites',
    path: () => '/sites',
    ready: (page) => page.locator('.sparkline').first().waitFor(),
  },
  {
    name: '/sites/:id',
    path: () => `/sites/${stack.plantId}`,
    ready: async (page) => {
      await page.locator('svg.flow').waitFor();
      await page.locator('.power canvas').waitFor();
      await panel(page, 'Commands').locator('tbody tr').first().waitFor();
      await panel(page, 'Alerts').locator('li').first().waitFor();
      await page.getByText('live', { exact: true }).waitFor();
    },
  },
  {
    name: '/sites/:id at a moment of the past',
    path: () => `/sites/${stack.plantId}?at=${new Date(Date.now() - 2_000).toISOString()}`,
    ready: async (page) => {
      await page.getByRole('button', { name: 'Back to now' }).waitFor();
      await page.getByRole('heading', { name: 'At that moment' }).waitFor();
      await page.locator('.power canvas').waitFor();
    },
  },
  {
    name: '/sites/:id/commands/:id',
    path: ({ commandId }) => `/sites/${stack.plantId}/commands/${commandId}`,
    ready: async (page) => {
      await page.locator('.timeline li[data-step="MEASURED"]').waitFor();
      await page.getByRole('button', { name: 'Run again as a dry run' }).click();
      await page.locator('.dry-run').waitFor();
    },
  },
  { name: '/keys', path: () => '/keys', ready: row },
  {
    name: '/keys/:id',
    path: () => `/keys/${stack.described.apiKey.id}`,
    ready: (page) => page.getByText('No message was dead-lettered.').waitFor(),
  },
  {
    name: '/events',
    path: () => '/events',
    ready: async (page) => {
      await page.locator('.tail summary').first().waitFor();
      await page.getByRole('button', { name: 'Pause' }).click();
      await page.locator('.tail summary').first().click();
      await page.locator('.tail pre').waitFor();
    },
  },
  {
    name: '/events of a key',
    path: () => '/events',
    ready: async (page) => {
      const { key, signingKey } = stack.described.apiKey;
      await page.getByText('Follow the events of one API key').click();
      await page.getByLabel('API key').fill(key);
      await page.getByLabel('Signing key').fill(signingKey);
      await page.getByRole('button', { name: 'Follow this key' }).click();
      await page.locator('.tail').getByText('signature valid').first().waitFor();
    },
  },
  {
    name: '/dead-letters',
    path: () => '/dead-letters',
    ready: (page) => page.getByText('No message was dead-lettered.').waitFor(),
  },
  {
    name: '/signature',
    path: () => '/signature',
    ready: (page) => page.getByRole('button', { name: 'Check' }).waitFor(),
  },
  {
    name: '/webhooks',
    path: () => '/webhooks',
    ready: async (page) => {
      await page.getByText('Last attempts').click();
      await row(page);
    },
  },
  { name: '/devices', path: () => '/devices', ready: row },
  {
    name: '/devices/:id',
    path: () => `/devices/${stack.described.plants[0]?.gatewayId}`,
    ready: (page) => panel(page, 'Diagnostics').locator('li').first().waitFor(),
  },
  {
    name: '/devices/:id of a device that is not provisioned',
    path: ({ spares }, scheme) => `/devices/${spares[scheme]}`,
    ready: (page) => page.getByText('No login yet.').waitFor(),
  },
  { name: '/device-templates', path: () => '/device-templates', ready: row },
  { name: '/alerts', path: () => '/alerts', ready: row },
  { name: '/audit', path: () => '/audit', ready: row },
  {
    name: '/members',
    path: () => '/members',
    ready: (page) => page.getByText('invited@example.com').waitFor(),
  },
  { name: '/account', path: () => '/account', ready: row },
  {
    name: '/organization',
    path: () => '/organization',
    ready: (page) => page.getByRole('button', { name: 'Save' }).waitFor(),
  },
  ...['/verify-email', '/confirm-email', '/reset-password'].map((path) => ({
    name: path,
    path: () => `${path}#token=${'x'.repeat(43)}`,
    ready: (page: Page) => page.getByRole('main').getByRole('button').first().waitFor(),
  })),
  {
    name: '/accept-invitation',
    path: ({ invitation }) => `/accept-invitation#token=${invitation}`,
    ready: (page) => page.getByRole('button', { name: 'Join the organization' }).waitFor(),
  },
  {
    name: 'an unknown path',
    path: () => '/no-such-page',
    ready: (page) => page.getByRole('heading', { name: 'There is no such page' }).waitFor(),
  },
];

/** A dialog, and how it is opened. */
interface Opened {
  title: string;
  path: (shown: Shown, scheme: Scheme) => string;
  open: (page: Page) => Promise<unknown>;
}

const press = (name: string) => (page: Page) => page.getByRole('button', { name, exact: true }).click();

const DIALOGS: readonly Opened[] = [
  { title: 'Create a site', path: () => '/sites', open: press('Create a site') },
  {
    title: 'What would happen',
    path: () => `/sites/${stack.plantId}`,
    open: async (page) => {
      // What comes later above the button would move it away under the click.
      await page.locator('svg.flow').waitFor();
      await page.locator('.power canvas').waitFor();
      await press('Emergency')(page);
      await press('Show what would happen')(page);
    },
  },
  { title: 'Create a key', path: () => '/keys', open: press('Create a key') },
  {
    title: 'Your new key',
    path: () => '/keys',
    open: async (page) => {
      await press('Create a key')(page);
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name').fill('Shown once');
      await dialog.getByLabel('Partner id').fill('shown-once');
      await dialog.getByRole('button', { name: 'Create a key' }).click();
    },
  },
  { title: 'Revoke', path: () => `/keys/${stack.described.apiKey.id}`, open: press('Revoke') },
  { title: 'Create a webhook', path: () => '/webhooks', open: press('Create a webhook') },
  { title: 'Register a device', path: () => '/devices', open: press('Register a device') },
  { title: 'Create a rule', path: () => '/alerts', open: press('Create a rule') },
  { title: 'Always over', path: () => '/alerts', open: press('Change Always over') },
  {
    title: 'Acknowledge: Always over',
    path: () => '/alerts',
    open: (page) => page.getByRole('button', { name: /^Acknowledge Always over/ }).click(),
  },
  {
    title: 'Suspend: Roof gateway',
    path: ({ certified }) => `/devices/${certified}`,
    open: press('Suspend Roof gateway'),
  },
  { title: 'Create a template', path: () => '/device-templates', open: press('Create a template') },
  {
    title: 'Issue a new certificate',
    path: ({ certified }) => `/devices/${certified}`,
    open: press('Issue a new certificate'),
  },
  {
    title: 'Provisioning package',
    path: ({ spares }, scheme) => `/devices/${spares[scheme]}`,
    open: press('Provision'),
  },
];

interface Life {
  steps: { step: string }[];
}

/** The serious and critical violations of a page: rule, impact, and the element with what is wrong with it. */
async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate<AxeResults>('axe.run({ resultTypes: ["violations"] })');
  return violations
    .filter(({ impact }) => GRAVE.includes(impact ?? ''))
    .flatMap(({ id, impact, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id} (${impact}): ${html}\n${failureSummary}`),
    );
}

const background = (page: Page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

/** Fills the screens: a command that was measured, an alert, a webhook with attempts, a device and an invitation. */
async function fill(): Promise<Shown> {
  const { baseUrl, admin, organization, apiKey } = stack.described;
  const client = await AdminClient.enter(baseUrl, admin);
  client.organizationId = organization.id;
  const at = `/plants/${stack.plantId}`;
  const order = async (priority: string, untilMs?: number) => {
    const payload = {
      ...{ type: 'POWER', targetValueKw: 20, direction: 'IMPORT', includeConsumption: true, priority },
      ...{ validFrom: new Date().toISOString() },
      ...(untilMs === undefined ? {} : { validUntil: new Date(untilMs).toISOString() }),
    };
    const body = { family: 'site-setpoint', payload, idempotencyKey: randomUUID() };
    return (await client.call<{ commandId: string }>('POST', `${at}/commands`, body)).commandId;
  };
  const commandId = await order('NORMAL', Date.now() + 4_000);
  const threshold = { metric: 'gridPowerKw', operator: 'GT', threshold: -1_000 };
  await client.call('POST', '/alerts', {
    ...threshold,
    ...{ name: 'Always over', severity: 'CRITICAL', plantId: stack.plantId },
  });
  await client.call('POST', '/partner/webhooks', {
    ...{ url: UNHEARD, keyId: apiKey.id, types: ['ack'], description: 'Nothing listens there' },
  });
  const spare = async (scheme: Scheme) => {
    const [name, serialNumber] = [`Spare gateway, ${scheme}`, `GW-SPARE-${scheme}`];
    const device = { name, serialNumber, type: 'GATEWAY', authMethod: 'TOKEN' };
    return (await client.call<{ id: string }>('POST', '/devices', device)).id;
  };
  const spares = { light: await spare('light'), dark: await spare('dark') };
  const mtls = { name: 'Roof gateway', serialNumber: 'GW-ROOF', type: 'GATEWAY', authMethod: 'MTLS' };
  const { id: certified } = await client.call<{ id: string }>('POST', '/devices', mtls);
  await client.call('POST', `/devices/${certified}/provision`, {});
  const invited = { email: 'invited@example.com', role: 'VIEWER' };
  await client.call('POST', `/organizations/${organization.id}/invitations`, invited);
  const wait = { timeout: 20_000, interval: 500 };
  await vi.waitFor(async () => {
    const life = await client.call<Life>('GET', `${at}/commands/${commandId}/timeline`);
    expect(life.steps.map(({ step }) => step)).toContain('ENDED');
  }, wait);
  await vi.waitFor(async () => expect(await client.list('/alerts')).not.toEqual([]), wait);
  // In the plan one command waits below the other.
  await order('NORMAL');
  await order('HIGH');
  const invitation = await new World(stack.described, {}).mailedToken(invited.email, 0);
  return { commandId, invitation, certified, spares };
}

describe.skipIf(!HAS_BROWSER)('the accessibility of the console', () => {
  let shown: Shown;

  beforeAll(async () => {
    shown = await fill();
  }, 60_000);

  describe.each(SCHEMES)('in %s colours', (colorScheme) => {
    let page: Page;

    beforeAll(async () => {
      // The policy of the page allows no script of another one, so not axe-core either.
      const options = { colorScheme, bypassCSP: true };
      ({ page } = await stack.loggedIn('/sites', stack.described.admin, options));
    }, 60_000);

    it('the login has no serious or critical violation', async () => {
      const opened = await stack.open({ colorScheme, bypassCSP: true });
      await opened.page.goto(`${stack.url}/sites`);
      await opened.page.getByRole('button', { name: 'Log in' }).waitFor();
      expect(await violationsOf(opened.page)).toEqual([]);
      await opened.page.getByRole('button', { name: 'Forgot your password?' }).click();
      await opened.page.getByRole('button', { name: 'Mail me a token' }).waitFor();
      expect(await violationsOf(opened.page)).toEqual([]);
      await opened.context.close();
    });

    it.each(SCREENS.map((screen) => [screen.name, screen] as const))(
      '%s has no serious or critical violation',
      async (_name, { path, ready }) => {
        await page.goto(`${stack.url}${path(shown, colorScheme)}`);
        await ready(page);
        expect(await violationsOf(page)).toEqual([]);
      },
    );

    it.each(DIALOGS.map((dialog) => [dialog.title, dialog] as const))(
      'the dialog %s has no serious or critical violation',
      async (_title, dialog) => {
        await page.goto(`${stack.url}${dialog.path(shown, colorScheme)}`);
        await dialog.open(page);
        await page.getByRole('dialog', { name: dialog.title }).waitFor();
        expect(await violationsOf(page)).toEqual([]);
      },
    );

    it('the page has the colours of the scheme', async () => {
      expect(await background(page)).toBe(
        { light: 'rgb(246, 247, 249)', dark: 'rgb(20, 23, 28)' }[colorScheme],
      );
    });

    it('axe-core reports a control without a name and a text without contrast', async () => {
      await page.goto(`${stack.url}/account`);
      await row(page);
      await page.evaluate(() => {
        const [button, text] = [document.createElement('button'), document.createElement('p')];
        text.textContent = 'unreadable';
        text.style.cssText = 'color: rgb(120 120 120); background: rgb(130 130 130)';
        document.querySelector('main')?.append(button, text);
      });
      const rules = (await violationsOf(page)).map((violation) => violation.split(' ')[0]);
      expect(rules).toEqual(expect.arrayContaining(['button-name', 'color-contrast']));
    });
  });
});
