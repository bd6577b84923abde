/** What goes wrong at a plant is shown with its reason: offline, over a limit, deviating, expired. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER, sendSetpoint } from '#support/console-page.ts';

const stack = consoleStack();
const SOON = { timeout: 40_000 };

describe.skipIf(!HAS_BROWSER)('the page of a site', () => {
  let page: Page;

  beforeAll(async () => {
    ({ page } = await stack.loggedIn(`/sites/${stack.plantId}`));
    await page.getByText('live', { exact: true }).waitFor();
  }, 60_000);
  afterAll(() => stack.behave('on'));

  const row = (text: string) => page.locator('tr', { hasText: text }).first();

  it('says that a plant deviated, with measured and expected power', async () => {
    await stack.behave('short');
    await sendSetpoint(page, { kw: 61, priority: 'HIGH', seconds: 12 });
    await expect.poll(() => row('61 kW IMPORT').innerText(), SOON).toContain('deviated');
    await row('61 kW IMPORT').getByRole('link').click();
    await page
      .getByText(/kW of 61 kW/)
      .first()
      .waitFor();
    await page.goBack();
    await page.getByText('live', { exact: true }).waitFor();
  });

  it('says that a command waits while the plant is offline, and that it expired', async () => {
    await stack.behave('offline');
    await expect.poll(() => page.locator('dd', { hasText: 'away' }).count(), SOON).toBe(1);
    await sendSetpoint(page, { kw: 33, priority: 'HIGH', seconds: 6 });
    await expect.poll(() => row('33 kW IMPORT').innerText(), SOON).toMatch(/failed[\s\S]*EXPIRED/);
  }, 120_000);

  it('shows a rejected command of a partner with its code and the limit', async () => {
    await stack.behave('on');
    const { described, plantId } = stack;
    const { key, id: _id } = described.apiKey;
    const payload = {
      ...{
        type: 'POWER',
        targetValueKw: 500,
        direction: 'IMPORT',
        includeConsumption: true,
        priority: 'HIGH',
      },
      validFrom: new Date().toISOString(),
    };
    const message = JSON.stringify({
      ...{ version: '1.1', messageId: crypto.randomUUID(), timestamp: new Date().toISOString() },
      ...{ source: 'test', siteId: plantId, payload },
    });
    const routingKey = `${described.organization.slug}.command.site-setpoint`;
    await fetch(`${stack.url}/api/v1/vcp/sites/${plantId}/commands`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ routingKey, message }),
    });
    await expect
      .poll(() => row('500 kW IMPORT').innerText(), SOON)
      .toMatch(/rejected[\s\S]*CONSTRAINT_VIOLATION[\s\S]*maxImportKw/);
  });

  it('says that it is not live when the edge was killed, and goes on by itself, bridge and plant too', async () => {
    const { edge, bridge } = stack.described.pids;
    await page.getByText('live', { exact: true }).waitFor();
    for (const pid of [edge, bridge]) process.kill(pid ?? 0, 'SIGKILL');
    await page.getByText('not live').waitFor({ timeout: 15_000 });
    await page.getByText('live', { exact: true }).waitFor({ timeout: 40_000 });
    const grid = () => page.locator('svg.flow').getAttribute('aria-label');
    const before = await grid();
    await expect.poll(grid, { timeout: 40_000 }).not.toBe(before);
  }, 120_000);
});
