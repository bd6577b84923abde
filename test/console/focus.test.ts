/** Where the focus goes, and what a small screen and an ended session show. */
import type { Locator, Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';

const stack = consoleStack();
const SOON = { timeout: 5_000 };
const LONG = 'Energiespeichersystemverwaltungsgesellschaft-Nordrheinwestfalen';

const hasFocus = (target: Locator) =>
  target.evaluateAll((all) => all.some((one) => one === document.activeElement));
const overflow = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);

describe.skipIf(!HAS_BROWSER)('the focus', () => {
  it('goes to the content with the first link of the page', async () => {
    const { page } = await stack.loggedIn('/sites');
    await page.getByRole('link', { name: 'Acme Dairy' }).waitFor();
    await page.keyboard.press('Tab');
    expect(await hasFocus(page.getByRole('link', { name: 'Skip to the content' }))).toBe(true);
    await page.keyboard.press('Enter');
    await expect.poll(() => hasFocus(page.getByRole('main')), SOON).toBe(true);
    await page.keyboard.press('Tab');
    expect(await hasFocus(page.getByRole('main').getByRole('searchbox'))).toBe(true);
  });

  it('stays in the dialog of a command after it was sent, and then goes back to the button', async () => {
    const { page } = await stack.loggedIn(`/sites/${stack.plantId}`);
    await page.locator('canvas').waitFor();
    await page.getByLabel('Power in kW').fill('18');
    const ask = page.getByRole('button', { name: 'Show what would happen' });
    const dialog = page.getByRole('dialog');
    await ask.press('Enter');
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(() => hasFocus(ask), SOON).toBe(true);
    await page.keyboard.press('Enter');
    await dialog.getByRole('button', { name: 'Send' }).press('Enter');
    await dialog.getByRole('status').waitFor();
    await expect.poll(() => hasFocus(dialog.getByRole('status')), SOON).toBe(true);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(() => hasFocus(ask), SOON).toBe(true);
  });

  it('goes back to the button when the secrets of a key are stored', async () => {
    const { page } = await stack.loggedIn('/keys');
    const create = page.getByRole('button', { name: 'Create a key' });
    await create.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('Focus');
    await dialog.getByLabel('Partner id').fill('focus');
    await dialog.getByLabel('Partner id').press('Enter');
    const secret = page.getByRole('dialog', { name: 'Your new key' });
    await secret.getByRole('button', { name: 'I have stored it' }).press('Enter');
    await secret.waitFor({ state: 'detached' });
    await expect.poll(() => hasFocus(create), SOON).toBe(true);
  });
});

describe.skipIf(!HAS_BROWSER)('a session that has ended', () => {
  it('is explained, also on a screen that makes several calls', async () => {
    const { page, context } = await stack.loggedIn('/sites');
    await page.locator('.sparkline').waitFor();
    await context.clearCookies();
    await page.getByRole('link', { name: 'Devices' }).click();
    await page.getByText('Your session has ended').waitFor();
  });
});

describe.skipIf(!HAS_BROWSER)('long words on a phone', () => {
  it('do not make any screen scroll to the side', async () => {
    const post = async <Answer>(path: string, body: unknown) =>
      await stack.call<Answer>(path, { method: 'POST', body });
    const timezone = 'Europe/Prague';
    const { id: plantId } = await post<{ id: string }>('/plants', { name: LONG, timezone });
    const device = { name: LONG, serialNumber: 'X'.repeat(40), type: 'GATEWAY' };
    const { id: deviceId } = await post<{ id: string }>('/devices', device);
    const key = { name: LONG, partnerId: LONG, scopes: ['vcp:read'] };
    const { apiKey } = await post<{ apiKey: { id: string } }>('/partner/api-keys', key);
    const url = 'https://hooks.example.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX';
    const keyId = stack.described.apiKey.id;
    await post('/partner/webhooks', { url, keyId, types: ['ack'], description: LONG });
    const viewport = { width: 360, height: 740 };
    const { page } = await stack.loggedIn('/sites', stack.described.admin, { viewport });
    const shown: [path: string, text: string][] = [
      ['/sites', LONG],
      [`/sites/${plantId}`, LONG],
      ['/devices', LONG],
      [`/devices/${deviceId}`, LONG],
      ['/keys', LONG],
      [`/keys/${apiKey.id}`, LONG],
      ['/webhooks', url],
    ];
    const wide: string[] = [];
    for (const [path, text] of shown) {
      await page.goto(`${stack.url}${path}`);
      await page.getByText(text).first().waitFor();
      if ((await overflow(page)) > 0) wide.push(`${path}: ${await overflow(page)} px`);
    }
    expect(wide).toEqual([]);
  });
});
