/** The panel of the development stack that drives the simulated plant, and what the page of a command shows of it. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';

const stack = consoleStack();
const SOON = { timeout: 20_000 };

describe.skipIf(!HAS_BROWSER)('the panel "Try it"', () => {
  let page: Page;
  let complaints: string[];

  beforeAll(async () => {
    ({ page, complaints } = await stack.loggedIn(`/sites/${stack.plantId}`));
    await page.getByRole('heading', { name: 'Try it' }).waitFor();
  }, 60_000);
  afterAll(() => stack.behave('on'));

  const panel = () => page.getByRole('region', { name: 'Try it' }).first();
  const cause = async (sees: string) => {
    await panel()
      .getByRole('button', { name: `Run ${sees}`, exact: true })
      .click();
    await panel().getByRole('status').getByText(sees).waitFor(SOON);
  };
  const status = () => panel().getByRole('status').innerText();

  it('causes an outcome, and links to the command that shows it', async () => {
    await cause('REJECTED INVALID_COMMAND');
    await expect.poll(status, SOON).toContain('rejected INVALID_COMMAND');
    await cause('COMPLETED');
    // The panel follows the command to its end.
    await expect.poll(status, SOON).toMatch(/accepted → completed/);
    await panel().getByRole('link', { name: 'Follow the command' }).click();
    await page.locator('.timeline li[data-step="ENDED"]').getByText('COMPLETED').waitFor();
  });

  it('the page of that command shows what was sent, what the device got, and the signature', async () => {
    const sent = page.getByRole('region', { name: 'What the sender sent, as it was recorded' });
    expect(await sent.innerText()).toContain('"BESS_CHARGE"');
    const got = page.getByRole('region', { name: /^What the device .*… was to get/ });
    expect(await got.innerText()).toMatch(/"action"[\s\S]*"powerKw": 5/);
    await page.getByText('The message had no signature, and commands of this kind need none here.').waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Try it' }).waitFor();
  });

  it('changes how the plant behaves first, and says how it behaves now', async () => {
    await cause('DEVIATED, and its alarm');
    await expect.poll(() => panel().getByLabel('How the plant behaves').inputValue(), SOON).toBe('short');
    await panel().getByText('It delivers 60 % of the requested power.').waitFor();
    await panel().getByRole('link', { name: 'Follow the command' }).click();
    await page.locator('.timeline li[data-step="ENDED"]').getByText('DEVIATED').waitFor(SOON);
    await page.goBack();
  });

  it('takes a behaviour that is chosen', async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route('**/dev/simulator', async (route) => {
      if (route.request().method() === 'PUT') await held;
      await route.continue();
    });
    await panel().getByLabel('How the plant behaves').selectOption('slow');
    // The choice stays while the plant changes, also when the panel has looked at the plant again.
    await panel().getByText('The plant changes to "slow"…').waitFor();
    const looked = (answer: { url: () => string; request: () => { method: () => string } }) =>
      answer.url().endsWith('/dev/simulator') && answer.request().method() === 'GET';
    await page.waitForResponse(looked);
    expect(await panel().getByLabel('How the plant behaves').inputValue()).toBe('slow');
    release();
    await panel().getByText('It obeys at once and acknowledges 5 s later.').waitFor(SOON);
    await panel().getByLabel('How the plant behaves').selectOption('on');
    await panel().getByText('It reports and obeys.').waitFor(SOON);
    await page.unroute('**/dev/simulator');
  });

  it('causes an outcome whatever was caused before it', async () => {
    await cause('REJECTED CONSTRAINT_VIOLATION (an emergency is active)');
    expect(await status()).toContain('rejected');
    await cause('FAILED EMERGENCY');
    await expect.poll(status, SOON).toMatch(/queued → failed EMERGENCY/);
    // An emergency is active now, and ends before the next outcome.
    await cause('COMPLETED');
    await expect.poll(status, SOON).toMatch(/accepted → completed/);
  });

  it('is not on the page of a plant that is not simulated', async () => {
    const { id } = await stack.call<{ id: string }>('/plants', {
      method: 'POST',
      body: { name: 'Another site', timezone: 'UTC' },
    });
    await page.goto(`${stack.url}/sites/${id}`);
    await page.getByRole('heading', { name: 'Sub-devices' }).waitFor();
    await page.getByText('No command yet.').waitFor();
    expect(await page.getByRole('heading', { name: 'Try it' }).count()).toBe(0);
  });

  it('shows in a moment of the past the commands of then, with the state that they had', async () => {
    await page.goto(`${stack.url}/sites/${stack.plantId}`);
    await page.getByText('live', { exact: true }).waitFor();
    await cause('REJECTED INVALID_COMMAND');
    const { items } = await stack.call<{
      items: { createdAt: string; finishedAt: string; status: string }[];
    }>(`/plants/${stack.plantId}/commands?pageSize=50`);
    const deviated = items.find((item) => item.status === 'DEVIATED');
    const during = Date.parse(deviated?.createdAt ?? '') + 2_000;
    expect(during).toBeLessThan(Date.parse(deviated?.finishedAt ?? ''));
    await page.goto(`${stack.url}/sites/${stack.plantId}?at=${new Date(during).toISOString()}`);
    const row = page.getByRole('region', { name: 'Commands' }).locator('tbody tr');
    await expect.poll(() => row.first().innerText(), SOON).toMatch(/20 kW IMPORT[\s\S]*executing/);
    expect(await row.count()).toBeLessThan(items.length);
    await page.goto(`${stack.url}/sites/${stack.plantId}?at=${new Date(during - 86_400_000).toISOString()}`);
    await page.getByRole('region', { name: 'Commands' }).getByText('No command yet.').waitFor();
    await page.getByRole('region', { name: 'Alerts' }).getByText('No open alert.').waitFor();
  });

  it('makes the browser complain about nothing', () => {
    expect(complaints).toEqual([]);
  });
});
