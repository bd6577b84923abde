/** The console without a mouse: the three main ways through it by keyboard alone; and on a narrow screen. */
import { randomUUID } from 'node:crypto';
import type { Locator, Page } from 'playwright-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';
import { AdminClient } from '../../tools/admin-client.ts';

const stack = consoleStack();
/** No control of a screen is further away than this. */
const MOST_PRESSES = 80;
const SOON = { timeout: 5_000 };
const NARROW = { width: 360, height: 740 };

type Step = 'Tab' | 'Shift+Tab';

const hasFocus = (target: Locator) =>
  target.evaluateAll((all) => all.some((one) => one === document.activeElement));

/** The element with the focus, in a few words. */
const focused = (page: Page) =>
  page.evaluate(() => {
    const { activeElement: one } = document;
    return `${one?.tagName} ${one?.getAttribute('aria-label') ?? one?.textContent?.slice(0, 40) ?? ''}`;
  });

/** Presses Tab until the control has the focus. Throws where the focus went if that takes too many presses. */
async function tabTo(page: Page, target: Locator, step: Step = 'Tab'): Promise<void> {
  await target.first().waitFor();
  const stops: string[] = [];
  for (let presses = 0; presses < MOST_PRESSES; presses++) {
    if (await hasFocus(target)) return;
    await page.keyboard.press(step);
    stops.push(await focused(page));
  }
  throw new Error(`${target} does not get the focus. Stops: ${stops.join(', ')}`);
}

/** Goes to a control, and presses a key there. */
async function pressAt(page: Page, target: Locator, key: 'Enter' | 'Space'): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press(key);
}

async function typeAt(page: Page, target: Locator, text: string, step: Step = 'Tab'): Promise<void> {
  await tabTo(page, target, step);
  await page.keyboard.type(text);
}

async function logInByKeyboard(page: Page): Promise<void> {
  const { email, password } = stack.described.admin;
  await page.goto(stack.url);
  await typeAt(page, page.getByLabel('E-mail'), email);
  await typeAt(page, page.getByLabel('Password'), password);
  await pressAt(page, page.getByRole('button', { name: 'Log in' }), 'Enter');
  await page.getByRole('navigation').waitFor();
}

/** Opens the page of the site from the list of sites. */
async function openSite(page: Page): Promise<void> {
  await pressAt(page, page.getByRole('link', { name: 'Acme Dairy' }), 'Enter');
  await page.getByRole('heading', { level: 1, name: 'Acme Dairy' }).waitFor();
}

describe.skipIf(!HAS_BROWSER)('the console by keyboard alone', () => {
  let page: Page;
  let close: () => Promise<void>;
  const dialog = (name: string) => page.getByRole('dialog', { name, exact: true });

  beforeEach(async () => {
    const opened = await stack.open();
    page = opened.page;
    close = () => opened.context.close();
    await logInByKeyboard(page);
  }, 60_000);
  afterEach(() => close());

  it('opens a site after the login, and the focus goes to the new screen', async () => {
    await openSite(page);
    expect(new URL(page.url()).pathname).toBe(`/sites/${stack.plantId}`);
    await expect.poll(() => hasFocus(page.getByRole('main')), SOON).toBe(true);
    await page.keyboard.press('Tab');
    // The first control of the screen, and not of the navigation.
    expect(await hasFocus(page.getByRole('main').getByRole('button'))).toBe(true);
  });

  it('shows what a setpoint would do, and sends it', async () => {
    await openSite(page);
    await typeAt(page, page.getByLabel('Power in kW'), '17');
    await typeAt(page, page.getByLabel('For how many seconds'), '300');
    // The list of a select needs no mouse: a letter chooses the option that begins with it.
    await typeAt(page, page.getByLabel('Priority'), 'HIGH', 'Shift+Tab');
    await pressAt(page, page.getByRole('button', { name: 'Show what would happen' }), 'Enter');
    const confirm = dialog('What would happen');
    await confirm.getByText('The plant follows it from now on.').waitFor();
    expect(await hasFocus(confirm.getByRole('button'))).toBe(true);
    await pressAt(page, confirm.getByRole('button', { name: 'Send', exact: true }), 'Space');
    await confirm.getByRole('status').getByText('accepted').waitFor();
    await page.keyboard.press('Escape');
    await confirm.waitFor({ state: 'detached' });
    const command = page.getByRole('row').filter({ hasText: '17 kW IMPORT' });
    await command.filter({ hasText: 'HIGH' }).waitFor();
  });

  it('does not send a setpoint whose dialog was closed with Escape', async () => {
    await openSite(page);
    await typeAt(page, page.getByLabel('Power in kW'), '18');
    await page.keyboard.press('Enter');
    await dialog('What would happen').getByRole('button', { name: 'Send', exact: true }).waitFor();
    await page.keyboard.press('Escape');
    await dialog('What would happen').waitFor({ state: 'detached' });
    const { items } = await stack.call<{ items: { payload: { targetValueKw?: number } }[] }>(
      `/plants/${stack.plantId}/commands`,
    );
    expect(items.map(({ payload }) => payload.targetValueKw)).not.toContain(18);
  });

  it('creates an API key, and closes the dialog with its secrets', async () => {
    await pressAt(page, page.getByRole('link', { name: 'Keys' }), 'Enter');
    await pressAt(page, page.getByRole('button', { name: 'Create a key' }), 'Space');
    const create = dialog('Create a key');
    await typeAt(page, create.getByLabel('Name'), 'By keyboard');
    await typeAt(page, create.getByLabel('Partner id'), 'keyboard-partner');
    await pressAt(page, create.getByLabel('vcp:write:config'), 'Space');
    expect(await create.getByLabel('vcp:write:config').isChecked()).toBe(false);
    await pressAt(page, create.getByRole('button', { name: 'Create a key' }), 'Enter');
    const secret = dialog('Your new key');
    await secret.getByText(/^sw_/).first().waitFor();
    await pressAt(page, secret.getByRole('button', { name: 'I have stored it' }), 'Enter');
    await secret.waitFor({ state: 'detached' });
    await page.getByRole('row').filter({ hasText: 'By keyboard' }).filter({ hasText: '6 scopes' }).waitFor();
  });

  it('keeps the focus in a dialog, and gives it back to the button that opened the dialog', async () => {
    const button = page.getByRole('button', { name: 'Create a site' });
    await pressAt(page, button, 'Enter');
    const create = dialog('Create a site');
    await create.waitFor();
    for (let presses = 0; presses < 20; presses++) {
      await page.keyboard.press('Tab');
      // Between the last control and the first one the focus is at the browser itself.
      const isInside = await page.evaluate(
        () => document.activeElement === document.body || document.activeElement?.closest('dialog') !== null,
      );
      expect(isInside, await focused(page)).toBe(true);
    }
    await page.keyboard.press('Escape');
    await create.waitFor({ state: 'detached' });
    expect(await hasFocus(button)).toBe(true);
  });

  it('shows where the focus is, at each stop of the page of a site', async () => {
    await openSite(page);
    await page.locator('.power canvas').waitFor();
    const stops: string[] = [];
    for (let presses = 0; presses < MOST_PRESSES; presses++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(() => document.activeElement === document.body)) break;
      const outline = await page.evaluate(() => {
        const style = getComputedStyle(document.activeElement ?? document.body);
        return `${style.outlineStyle} ${style.outlineWidth}`;
      });
      expect(outline, await focused(page)).toBe('solid 3px');
      stops.push(await focused(page));
    }
    // Five fields and buttons of the control, the ranges, the cursor of the plan, and the tables.
    expect(stops.length).toBeGreaterThan(15);
    expect(stops).toContain('DIV Moment that the page shows');
  });
});

interface NarrowScreen {
  name: string;
  path: () => string;
  /** What is there when the screen has its data. */
  loaded: string;
  controls: (page: Page) => Locator[];
}

const button = (page: Page, ...names: string[]) =>
  names.map((name) => page.getByRole('button', { name, exact: true }));
/** Buttons whose name says what they are about. */
const about = (page: Page, ...names: string[]) =>
  names.map((name) => page.getByRole('button', { name: new RegExp(`^${name} `) }));
const field = (page: Page, ...names: string[]) => names.map((name) => page.getByLabel(name, { exact: true }));
const link = (page: Page, ...names: string[]) => names.map((name) => page.getByRole('link', { name }));

let commandId = '';

const SCREENS: readonly NarrowScreen[] = [
  {
    ...{ name: '/sites', path: () => '/sites', loaded: '.sparkline' },
    controls: (page) => [
      ...button(page, 'Create a site'),
      ...field(page, 'Search by name, id or metering point'),
      ...link(page, 'Acme Dairy'),
    ],
  },
  {
    ...{ name: '/sites/:id', path: () => `/sites/${stack.plantId}`, loaded: '.power canvas' },
    controls: (page) => [
      ...button(page, 'Setpoint', 'Mode', 'Emergency', 'Show what would happen', '15m', '90d'),
      ...field(page, 'Power in kW', 'Direction', 'Priority', 'For how many seconds'),
      ...[page.getByRole('slider'), page.locator('.why'), page.locator('svg.flow')],
    ],
  },
  {
    name: '/sites/:id/commands/:id',
    ...{ path: () => `/sites/${stack.plantId}/commands/${commandId}`, loaded: '.timeline li' },
    controls: (page) => [...button(page, 'Run again as a dry run'), ...link(page, 'To the site')],
  },
  {
    ...{ name: '/keys', path: () => '/keys', loaded: 'tbody tr' },
    controls: (page) => [...button(page, 'Create a key'), ...link(page, 'Trading desk')],
  },
  {
    ...{ name: '/keys/:id', path: () => `/keys/${stack.described.apiKey.id}`, loaded: '.empty' },
    controls: (page) => [...button(page, 'Revoke', 'Test the connection'), ...field(page, 'API key')],
  },
  {
    ...{ name: '/events', path: () => '/events', loaded: '.tail summary' },
    controls: (page) => [...button(page, 'Pause'), ...field(page, 'Site', 'Type', 'Search in the text')],
  },
  {
    ...{ name: '/signature', path: () => '/signature', loaded: 'form' },
    controls: (page) => [...button(page, 'Check'), ...field(page, 'Message', 'Routing key', 'Signing key')],
  },
  {
    ...{ name: '/webhooks', path: () => '/webhooks', loaded: '.panel' },
    controls: (page) => [
      ...button(page, 'Create a webhook'),
      ...about(page, 'Send a test message', 'Delete'),
      page.getByText('Last attempts'),
    ],
  },
  {
    ...{ name: '/devices', path: () => '/devices', loaded: 'tbody tr' },
    controls: (page) => [...button(page, 'Register a device'), ...link(page, 'Gateway')],
  },
  {
    name: '/devices/:id',
    path: () => `/devices/${stack.described.plants[0]?.gatewayId}`,
    loaded: 'section:has(h3) li',
    controls: (page) => [
      ...button(page, 'Rotate the secret', 'Issue a new token', 'Save'),
      ...about(page, 'Suspend', 'Decommission'),
      page.getByRole('combobox', { name: 'Site', exact: true }),
      ...field(page, 'Template'),
    ],
  },
  {
    ...{ name: '/device-templates', path: () => '/device-templates', loaded: 'tbody tr' },
    controls: (page) => button(page, 'Create a template'),
  },
  {
    ...{ name: '/alerts', path: () => '/alerts', loaded: '.empty' },
    controls: (page) => [...button(page, 'Create a rule'), ...field(page, 'Status')],
  },
  {
    ...{ name: '/audit', path: () => '/audit', loaded: 'tbody tr' },
    controls: (page) => field(page, 'Event', 'Day'),
  },
  {
    ...{ name: '/dead-letters', path: () => '/dead-letters', loaded: '.empty' },
    controls: (page) => field(page, 'Key'),
  },
  {
    ...{ name: '/members', path: () => '/members', loaded: 'tbody tr' },
    controls: (page) => [...button(page, 'Invite'), ...field(page, 'E-mail', 'Role')],
  },
  {
    ...{ name: '/account', path: () => '/account', loaded: 'tbody tr' },
    controls: (page) => [
      ...button(page, 'Change the password', 'Change the address'),
      ...field(page, 'Current password', 'New password', 'New e-mail address'),
    ],
  },
  {
    ...{ name: '/organization', path: () => '/organization', loaded: 'form' },
    controls: (page) => [...button(page, 'Save'), ...field(page, 'Name')],
  },
  {
    ...{ name: 'an unknown path', path: () => '/no-such-page', loaded: 'h1' },
    controls: (page) => link(page, 'Go to the sites'),
  },
];

interface NarrowDialog {
  title: string;
  path: () => string;
  open: (page: Page) => Promise<void>;
  /** The names of its buttons. */
  controls: readonly string[];
}

const press =
  (...names: string[]) =>
  async (page: Page) => {
    for (const one of button(page, ...names)) await one.click();
  };

const DIALOGS: readonly NarrowDialog[] = [
  {
    ...{ title: 'Create a site', path: () => '/sites', open: press('Create a site') },
    controls: ['Create a site', 'Close'],
  },
  {
    ...{ title: 'What would happen', path: () => `/sites/${stack.plantId}` },
    open: async (page) => {
      // What comes later above the button would move it away under the click.
      await page.locator('svg.flow').waitFor();
      await page.locator('.power canvas').waitFor();
      await press('Emergency', 'Show what would happen')(page);
    },
    controls: ['Send', 'Close'],
  },
  {
    ...{ title: 'Create a key', path: () => '/keys', open: press('Create a key') },
    controls: ['Create a key', 'Close'],
  },
  {
    ...{ title: 'Your new key', path: () => '/keys' },
    open: async (page) => {
      await press('Create a key')(page);
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name').fill('Narrow');
      await dialog.getByLabel('Partner id').fill('narrow-partner');
      await dialog.getByRole('button', { name: 'Create a key' }).click();
    },
    controls: ['Download as a file', 'Test the connection', 'I have stored it', 'Close'],
  },
  {
    ...{ title: 'Create a webhook', path: () => '/webhooks', open: press('Create a webhook') },
    controls: ['Create a webhook', 'Close'],
  },
  {
    ...{ title: 'Register a device', path: () => '/devices', open: press('Register a device') },
    controls: ['Register a device', 'Close'],
  },
  {
    ...{ title: 'Create a rule', path: () => '/alerts', open: press('Create a rule') },
    controls: ['Create a rule', 'Close'],
  },
  {
    ...{ title: 'Create a template', path: () => '/device-templates', open: press('Create a template') },
    controls: ['Save', 'Close'],
  },
];

const NAVIGATION = ['Sites', 'Events', 'Alerts', 'Devices', 'Keys', 'Webhooks', 'Audit', 'Members'];

/** How far the page can be scrolled to the side. */
const overflow = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

/** The controls that are not there, or not between the left and the right edge of the screen. */
async function hiddenOf(controls: readonly Locator[]): Promise<string[]> {
  const hidden: string[] = [];
  for (const control of controls) {
    const box = await control.first().boundingBox();
    const isInside = box !== null && box.width > 0 && box.x >= 0 && box.x + box.width <= NARROW.width;
    if (!isInside || !(await control.first().isVisible())) hidden.push(`${control} ${JSON.stringify(box)}`);
  }
  return hidden;
}

describe.skipIf(!HAS_BROWSER)('the console on a screen of 360 pixels', () => {
  let page: Page;

  beforeAll(async () => {
    const { baseUrl, admin, organization, apiKey } = stack.described;
    const client = await AdminClient.enter(baseUrl, admin);
    client.organizationId = organization.id;
    const sent = { family: 'mode', payload: { mode: 'STANDARD' }, idempotencyKey: randomUUID() };
    ({ commandId } = await client.call<{ commandId: string }>(
      'POST',
      `/plants/${stack.plantId}/commands`,
      sent,
    ));
    const webhook = { url: 'https://hooks.example.com/a', keyId: apiKey.id, types: ['ack'] };
    await client.call('POST', '/partner/webhooks', webhook);
    ({ page } = await stack.loggedIn('/sites', admin, { viewport: NARROW }));
  }, 60_000);

  it('the login shows its fields and does not scroll to the side', async () => {
    const opened = await stack.open({ viewport: NARROW });
    await opened.page.goto(stack.url);
    await opened.page.getByLabel('E-mail').waitFor();
    const controls = [
      ...field(opened.page, 'E-mail', 'Password'),
      ...button(opened.page, 'Log in', 'Forgot your password?'),
    ];
    expect(await hiddenOf(controls)).toEqual([]);
    expect(await overflow(opened.page)).toBe(0);
    await opened.context.close();
  });

  it.each(SCREENS.map((screen) => [screen.name, screen] as const))(
    '%s shows its main controls and does not scroll to the side',
    async (_name, { path, loaded, controls }) => {
      await page.goto(`${stack.url}${path()}`);
      await page.locator(loaded).first().waitFor();
      const all = [...controls(page), ...link(page, ...NAVIGATION), ...button(page, 'Log out')];
      await expect.poll(() => hiddenOf(all), SOON).toEqual([]);
      expect(await overflow(page)).toBe(0);
    },
  );

  it.each(DIALOGS.map((one) => [one.title, one] as const))(
    'the dialog %s is as narrow as the screen',
    async (title, { path, open, controls }) => {
      await page.goto(`${stack.url}${path()}`);
      await open(page);
      const dialog = page.getByRole('dialog', { name: title });
      await dialog.waitFor();
      const inside = controls.map((name) => dialog.getByRole('button', { name, exact: true }));
      await expect.poll(() => hiddenOf([dialog, ...inside]), SOON).toEqual([]);
      expect(await dialog.evaluate((one) => one.scrollWidth - one.clientWidth)).toBe(0);
      expect(await overflow(page)).toBe(0);
    },
  );
});
