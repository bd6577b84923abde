/**
 * The pictures of docs/console.md. `SITEWIRE_SCREENSHOTS=1 npm run test:console` writes them; without it these tests only
 * check that each screen has its pictures and that the page of the docs shows them.
 */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER, sendSetpoint } from '#support/console-page.ts';

const DOCS = join(import.meta.dirname, '..', '..', 'docs');
const FOLDER = join(DOCS, 'console');
const THEMES = ['light', 'dark'] as const;
const NAMES = [
  ...[
    'login',
    'sites',
    'site',
    'command',
    'events',
    'signature',
    'dead-letters',
    'alerts',
    'devices',
    'device',
    'templates',
    'keys',
    'key',
  ],
  ...['webhooks', 'audit', 'members', 'settings', 'account'],
];
const mustWrite = process.env.SITEWIRE_SCREENSHOTS === '1';

describe('docs/console.md', () => {
  const text = readFileSync(join(DOCS, 'console.md'), 'utf8');
  it.skipIf(mustWrite).each(NAMES)('shows the screen "%s", light and dark', (name) => {
    for (const theme of THEMES) {
      expect(text).toContain(`console/${name}-${theme}.jpg`);
      expect(existsSync(join(FOLDER, `${name}-${theme}.jpg`))).toBe(true);
    }
  });
});

describe.runIf(HAS_BROWSER && mustWrite)('the pictures', () => {
  const stack = consoleStack();

  it('are written for each screen, light and dark', async () => {
    mkdirSync(FOLDER, { recursive: true });
    const { described, plantId } = stack;
    const { page: first } = await stack.loggedIn(`/sites/${plantId}`);
    await first.getByText('live', { exact: true }).waitFor();
    await sendSetpoint(first, { kw: 20, priority: 'NORMAL', seconds: 900 });
    await sendSetpoint(first, { kw: 12, priority: 'HIGH', seconds: 600 });
    await first.locator('[data-lane="NORMAL"][data-state="waiting"]').waitFor();
    const { items } = await stack.call<{ items: { id: string }[] }>(`/plants/${plantId}/commands`);
    const { data: devices } = await stack.call<{ data: { id: string }[] }>('/devices');
    const paths: Record<string, string> = {
      ...{
        sites: '/sites',
        site: `/sites/${plantId}`,
        command: `/sites/${plantId}/commands/${items[0]?.id}`,
      },
      ...{ events: '/events', alerts: '/alerts', devices: '/devices', device: `/devices/${devices[0]?.id}` },
      ...{ signature: '/signature', 'dead-letters': '/dead-letters', templates: '/device-templates' },
      ...{ keys: '/keys', key: `/keys/${described.apiKey.id}`, webhooks: '/webhooks', audit: '/audit' },
      ...{ members: '/members', settings: '/organization', account: '/account' },
    };
    for (const colorScheme of THEMES) {
      const options = { colorScheme, viewport: { width: 1000, height: 720 } };
      const shot = (name: string) => ({ path: join(FOLDER, `${name}-${colorScheme}.jpg`), quality: 55 });
      const { page: out } = await stack.open(options);
      await out.goto(stack.url);
      await out.getByRole('button', { name: 'Log in' }).waitFor();
      await out.screenshot({ ...shot('login'), type: 'jpeg' });
      const { page } = await stack.loggedIn('/sites', described.admin, options);
      for (const [name, path] of Object.entries(paths)) {
        await page.goto(`${stack.url}${path}`);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await page.waitForLoadState('networkidle', { timeout: 2_000 }).catch(() => {});
        if (name === 'events') await page.locator('.tail li').first().waitFor();
        await page.screenshot({ ...shot(name), type: 'jpeg' });
      }
    }
    expect(
      NAMES.every((name) => THEMES.every((theme) => existsSync(join(FOLDER, `${name}-${theme}.jpg`)))),
    ).toBe(true);
  }, 300_000);
});
