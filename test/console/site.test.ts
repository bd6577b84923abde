/** The page of a site, live: it follows the plant, draws the plan, and sends commands through a dry run. */
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER, sendSetpoint } from '#support/console-page.ts';

const stack = consoleStack();
/** Three seconds are enough on a quiet machine; a busy one must not make the tests fail. */
const LIVE = { timeout: 10_000 };

describe.skipIf(!HAS_BROWSER)('the page of a site', () => {
  let page: Page;
  let complaints: string[];
  let foreign: string[];

  beforeAll(async () => {
    ({ page, complaints, foreign } = await stack.loggedIn(`/sites/${stack.plantId}`));
  }, 60_000);

  const grid = () => page.locator('svg.flow').getAttribute('aria-label');
  const bars = (lane: string, state: string, isPast = false) =>
    page.locator(`[data-lane="${lane}"][data-state="${state}"][data-past="${isPast}"]`);

  it('shows the grid power within three seconds, and says that it is live', async () => {
    await expect.poll(grid, LIVE).toMatch(/^Grid -?[\d.]+ kW/);
    await expect.poll(() => page.getByText('live', { exact: true }).count(), LIVE).toBe(1);
    await expect.poll(() => page.locator('.why').innerText(), LIVE).toMatch(/measured\.$/);
  });

  it('draws a HIGH setpoint, hatches the NORMAL one below it, and lets it come back', async () => {
    expect(await sendSetpoint(page, { kw: 20, priority: 'NORMAL', seconds: 120 })).toMatch(
      /accepted[\s\S]*The plant follows it from now on/,
    );
    await expect.poll(() => bars('NORMAL', 'active').count(), LIVE).toBe(1);
    await expect.poll(grid, LIVE).toMatch(/^Grid 20 kW/);
    expect(await sendSetpoint(page, { kw: 12, priority: 'HIGH', seconds: 6 })).toContain(
      'The NORMAL setpoint waits below it.',
    );
    await expect.poll(() => bars('HIGH', 'active').count(), LIVE).toBe(1);
    await expect.poll(() => bars('NORMAL', 'waiting').count(), LIVE).toBe(1);
    await expect.poll(grid, LIVE).toMatch(/^Grid 12 kW/);
    await expect
      .poll(() => page.locator('.why').innerText(), LIVE)
      .toMatch(/^Held at 12 kW import by the HIGH/);
    await expect.poll(() => bars('HIGH', 'active', true).count(), { timeout: 10_000 }).toBe(1);
    await expect.poll(() => bars('NORMAL', 'active').count(), LIVE).toBe(1);
    await expect.poll(grid, LIVE).toMatch(/^Grid 20 kW/);
  });

  it('shows the moment of its cursor in every panel, and its address shows the same again', async () => {
    await page.getByRole('slider').focus();
    await page.keyboard.press('ArrowLeft');
    await page.getByText('This page shows').waitFor();
    expect(new URL(page.url()).searchParams.get('at')).not.toBeNull();
    // A moment of a few seconds ago: the stack has readings of it.
    const at = new Date(Date.now() - 3_000).toISOString();
    await page.goto(`${stack.url}/sites/${stack.plantId}?at=${at}`);
    await expect.poll(grid, LIVE).toMatch(/^Grid (12|20) kW/);
    const then = await grid();
    await expect.poll(() => page.locator('.why').innerText(), LIVE).toMatch(/^Held at/);
    const sentence = await page.locator('.why').innerText();
    expect(await page.getByRole('heading', { name: 'At that moment' }).count()).toBe(1);
    await page.reload();
    await expect.poll(() => page.locator('.why').innerText(), LIVE).toBe(sentence);
    await expect.poll(grid, LIVE).toBe(then);
    await page.getByRole('button', { name: 'Back to now' }).click();
    await page.getByRole('heading', { name: 'Now', exact: true }).waitFor();
  });

  it('reads a moment with four requests, and not again when the reader comes back to it', async () => {
    const at = new Date(Date.now() - 15_000).toISOString();
    const asked: string[] = [];
    const note = (request: { url: () => string }) => {
      const { pathname, searchParams } = new URL(request.url());
      if (searchParams.get('at') === at) asked.push(pathname.replace(/^.*\/(plants\/[^/]+\/)?/, ''));
    };
    page.on('request', note);
    const show = async (query: string) => {
      await page.evaluate((to) => {
        history.replaceState(null, '', to);
        window.dispatchEvent(new PopStateEvent('popstate'));
      }, query);
    };
    await show(`?at=${at}`);
    await page.getByRole('heading', { name: 'At that moment' }).waitFor();
    await expect.poll(() => page.locator('.why').innerText(), LIVE).not.toBe('Loading…');
    expect(asked.sort()).toEqual(['alerts', 'commands', 'explain', 'latest']);
    await show('?');
    await page.getByRole('heading', { name: 'Now', exact: true }).waitFor();
    await show(`?at=${at}`);
    await page.getByRole('heading', { name: 'At that moment' }).waitFor();
    await expect.poll(() => page.locator('.why').innerText(), LIVE).not.toBe('Loading…');
    page.off('request', note);
    expect(asked).toHaveLength(4);
    await show('?');
    await page.getByRole('heading', { name: 'Now', exact: true }).waitFor();
  });

  it('shows why a command over a limit would be rejected, and does not send it', async () => {
    const said = await sendSetpoint(page, { kw: 500, priority: 'HIGH' });
    expect(said).toMatch(/rejected[\s\S]*maxImportKw: 120 kW[\s\S]*At most 120 kW would be accepted/);
    expect(said).toContain('so it is not sent');
    const { items } = await stack.call<{ items: { status: string }[] }>(`/plants/${stack.plantId}/commands`);
    expect(items.filter(({ status }) => status === 'REJECTED')).toEqual([]);
  });

  it('sends an emergency only when its name was typed', async () => {
    await page.getByRole('button', { name: 'Emergency', exact: true }).click();
    await page.getByRole('button', { name: 'Show what would happen' }).click();
    const send = page.getByRole('dialog').getByRole('button', { name: 'Send', exact: true });
    expect(await send.isDisabled()).toBe(true);
    await page.getByLabel('Type STOP to confirm').fill('stop');
    expect(await send.isDisabled()).toBe(true);
    await page.getByLabel('Type STOP to confirm').fill('STOP');
    await send.click();
    await page.getByRole('dialog').getByRole('status').waitFor();
    await page.keyboard.press('Escape');
    await expect.poll(() => bars('EMERGENCY', 'active').count(), LIVE).toBe(1);
    await page.getByRole('button', { name: 'Mode', exact: true }).click();
    await page.getByRole('button', { name: 'Show what would happen' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('dialog').getByRole('status').waitFor();
    await page.keyboard.press('Escape');
    await expect.poll(() => bars('EMERGENCY', 'active').count(), LIVE).toBe(0);
  });

  it('shows the life of a command, with its steps in order', async () => {
    await page
      .getByRole('link', { name: /^\d\d:\d\d:\d\d$/ })
      .last()
      .waitFor();
    await page.locator('tr', { hasText: '12 kW IMPORT' }).getByRole('link').click();
    const steps = () =>
      page.locator('.timeline li').evaluateAll((all) => all.map((one) => one.getAttribute('data-step')));
    await expect
      .poll(steps, LIVE)
      .toEqual([
        ...['PUBLISHED', 'RECORDED', 'JUDGED', 'ACKNOWLEDGED', 'PLANNED', 'DISPATCHED', 'DEVICE_RECEIVED'],
        ...['DEVICE_STARTED', 'MEASURED', 'ENDED'],
      ]);
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Setpoint 12 kW IMPORT');
    await page.getByRole('button', { name: 'Run again as a dry run' }).click();
    await page.locator('.dry-run').waitFor();
    await page.goBack();
  });

  it('says that it is not live while the edge is away, and goes on by itself', async () => {
    await page.getByText('live', { exact: true }).waitFor();
    process.kill(stack.described.pids.edge ?? 0, 'SIGSTOP');
    try {
      await page.getByText('not live').waitFor({ timeout: 15_000 });
    } finally {
      process.kill(stack.described.pids.edge ?? 0, 'SIGCONT');
    }
    await page.getByText('live', { exact: true }).waitFor({ timeout: 15_000 });
  });

  it('asked no other origin', () => {
    expect(foreign).toEqual([]);
    expect(complaints.filter((text) => !/Failed to load resource|ERR_/.test(text))).toEqual([]);
  });
});
