/** The list of sites: its values, its order, and how little it asks for. */
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';

const stack = consoleStack();
const SOON = { timeout: 20_000 };
/** So many sites that the last ones are not on the screen. */
const OTHERS = 40;

describe.skipIf(!HAS_BROWSER)('the list of sites', () => {
  let page: Page;
  let complaints: string[];
  let asked: string[];
  let lastId: string;

  beforeAll(async () => {
    for (let number = 1; number <= OTHERS; number++) {
      const name = `Site ${String(number).padStart(2, '0')}`;
      const body = { name, timezone: 'UTC' };
      ({ id: lastId } = await stack.call<{ id: string }>('/plants', { method: 'POST', body }));
    }
    const { id: deviceId } = await stack.call<{ id: string }>('/devices', {
      method: 'POST',
      body: {
        ...{ name: 'Gateway 40', serialNumber: 'GW-40', type: 'GATEWAY', authMethod: 'TOKEN' },
        plantId: lastId,
      },
    });
    await stack.call(`/devices/${deviceId}/provision`, { method: 'POST', body: {} });
    // It waits for its time, so that a site whose row nobody sees has a waiting command.
    const sent = await stack.call<{ acknowledgement: { status: string } }>(`/plants/${lastId}/commands`, {
      method: 'POST',
      body: {
        ...{ family: 'site-setpoint', idempotencyKey: 'waits' },
        payload: {
          ...{ type: 'POWER', targetValueKw: 5, direction: 'IMPORT', includeConsumption: true },
          ...{ priority: 'NORMAL', validFrom: new Date(Date.now() + 3_600_000).toISOString() },
        },
      },
    });
    expect(sent.acknowledgement).toMatchObject({ status: 'QUEUED' });
    ({ page, complaints } = await stack.loggedIn('/sites'));
    asked = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await page.getByRole('link', { name: 'Acme Dairy' }).waitFor();
  }, 120_000);

  const latestOf = (id: string) => asked.filter((path) => path === `/api/v1/plants/${id}/telemetry/latest`);
  const row = (name: string) => page.locator('tr', { hasText: name });

  it('shows the grid power of the sites on the screen, and reads nothing of those below', async () => {
    await page.getByLabel('Search by name').fill('Acme');
    await expect.poll(() => row('Acme Dairy').innerText(), SOON).toMatch(/-?[\d.]+ kW/);
    expect(latestOf(lastId)).toEqual([]);
  });

  it('does not read the values again when the reader comes back at once', async () => {
    const before = latestOf(stack.plantId).length;
    await row('Acme Dairy').getByRole('link').click();
    await page.getByRole('heading', { name: 'Acme Dairy' }).waitFor();
    const onPage = latestOf(stack.plantId).length;
    await page.goBack();
    // The last values are there at once.
    await expect.poll(() => row('Acme Dairy').innerText(), SOON).toMatch(/-?[\d.]+ kW/);
    await page.getByLabel('Search by name').waitFor();
    expect(onPage).toBeGreaterThanOrEqual(before);
    expect(latestOf(stack.plantId).length).toBe(onPage);
  });

  it('counts the waiting commands of a site that nobody has scrolled to', async () => {
    await page.getByLabel('Search by name').fill('');
    const counted = () => asked.some((path) => path === `/api/v1/plants/${lastId}/explain`);
    await expect.poll(counted, { timeout: 90_000 }).toBe(true);
    await expect.poll(() => row(`Site ${OTHERS}`).innerText(), SOON).toContain('1 waiting');
  }, 120_000);

  it('asks for nothing while the API wants it to wait', async () => {
    const refused: number[] = [];
    await page.route('**/api/v1/**', async (route) => {
      refused.push(Date.now());
      await route.fulfill({
        ...{ status: 429, headers: { 'retry-after': '5' } },
        json: { statusCode: 429, code: 'TOO_MANY_REQUESTS', message: 'wait', error: 'Too Many Requests' },
      });
    });
    const sinceFirst = () => refused.map((at) => at - (refused[0] ?? at));
    // The next request comes when the time that the API has named is over.
    await expect.poll(() => Math.max(0, ...sinceFirst()), SOON).toBeGreaterThan(4_000);
    // Those that were under way with the first refusal are no new ones.
    expect(sinceFirst().filter((ms) => ms > 1_000 && ms < 4_900)).toEqual([]);
    await page.unroute('**/api/v1/**');
    await expect.poll(() => row('Acme Dairy').innerText(), SOON).toMatch(/-?[\d.]+ kW/);
  });

  it('makes the browser complain about nothing but refusals', () => {
    expect(complaints.filter((text) => !text.includes('Failed to load resource'))).toEqual([]);
  });
});
