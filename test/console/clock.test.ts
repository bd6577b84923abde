/**
 * A computer whose clock is wrong: what the console shows and sends goes by the platform's time. The processes of the stack
 * and this one share a clock, so its `Date.now()` is the platform's.
 */
import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER, sendSetpoint } from '#support/console-page.ts';

const stack = consoleStack();
const LIVE = { timeout: 10_000 };
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** A busy machine may be slow, but not as slow as the clocks here are wrong. */
const SLACK_MS = 8_000;

/** Moves the clock of every page of the context; the timers and the time since the page began stay right. */
async function skew(context: BrowserContext, byMs: number): Promise<void> {
  await context.addInitScript((first) => {
    const Real = Date;
    let offsetMs = first;
    class Skewed extends Real {
      constructor(...given: []) {
        if (given.length === 0) super(Real.now() + offsetMs);
        else super(...given);
      }
      static override now(): number {
        return Real.now() + offsetMs;
      }
    }
    Object.assign(globalThis, {
      Date: Skewed,
      setClock: (to: number) => {
        offsetMs = to;
      },
    });
  }, byMs);
}

interface Sent {
  acknowledgement: { status: string };
  commandId: string;
}
interface Logged {
  id: string;
  status: string;
  validFrom?: string;
  validUntil?: string;
  payload: { targetValueKw?: number };
}

const commandOf = async (kw: number) => {
  const { items } = await stack.call<{ items: Logged[] }>(`/plants/${stack.plantId}/commands?pageSize=100`);
  return items.find(({ payload }) => payload.targetValueKw === kw);
};

/** The age that an element shows, as the shortest and the longest one that it may mean. */
async function shownAge(time: Locator): Promise<[leastMs: number, mostMs: number]> {
  const text = await time.innerText();
  if (text === 'now') return [0, 2_000];
  const [, count, unit] = /^(\d+) (s|min|h|days) ago$/.exec(text) ?? [];
  const unitMs = { s: 1_000, min: MINUTE, h: HOUR, days: 24 * HOUR }[unit ?? ''];
  if (unitMs === undefined) throw new Error(`"${text}" is no age`);
  return [Number(count) * unitMs, (Number(count) + 1) * unitMs];
}

/** How much an age that is shown differs from the real one. */
async function ageFault(time: Locator): Promise<number> {
  const at = Date.parse((await time.getAttribute('datetime')) ?? '');
  const [leastMs, mostMs] = await shownAge(time);
  const realMs = Date.now() - at;
  return Math.max(0, leastMs - realMs, realMs - mostMs);
}

const NOTICE = /clock of this computer/i;

describe.skipIf(!HAS_BROWSER).each([
  ['is right', 0, 31, undefined],
  ['is ten minutes ahead', 10 * MINUTE, 32, /10 min ahead/],
  ['is ten minutes behind', -10 * MINUTE, 33, /10 min behind/],
  ['is two hours behind', -2 * HOUR, 34, /2 h( 0 min)? behind/],
  ['is three days ahead', 72 * HOUR, 35, /(3 days|72 h( 0 min)?) ahead/],
] as const)('the console on a computer whose clock %s', (_name, byMs, kw, notice) => {
  let page: Page;
  let context: BrowserContext;
  let webhook: string;

  beforeAll(async () => {
    webhook = `https://hooks.example.com/clock-${kw}`;
    const body = { url: webhook, keyId: stack.described.apiKey.id, types: ['ack'] };
    await stack.call('/partner/webhooks', { method: 'POST', body });
    ({ page, context } = await stack.open());
    await skew(context, byMs);
    await page.goto(`${stack.url}/sites/${stack.plantId}`);
    await page.getByLabel('E-mail').fill(stack.described.admin.email);
    await page.getByLabel('Password').fill(stack.described.admin.password);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('navigation').waitFor();
    await page.locator('.power canvas').waitFor();
  }, 60_000);
  afterAll(() => context?.close());

  const open = async (path: string) => {
    await page.goto(`${stack.url}${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
  };

  it('sends a setpoint "for 60 s, now" with the window of the platform\'s time', async () => {
    const beganAtMs = Date.now();
    const said = await sendSetpoint(page, { kw, priority: 'HIGH', seconds: 60 });
    expect(said).toMatch(/accepted[\s\S]*The plant follows it from now on/);
    const sentAtMs = Date.now();
    const command = await commandOf(kw);
    expect(command).toMatchObject({ status: expect.stringMatching(/^(PENDING|EXECUTING|COMPLETED)$/) });
    const [fromMs, untilMs] = [Date.parse(command?.validFrom ?? ''), Date.parse(command?.validUntil ?? '')];
    expect(untilMs - fromMs).toBe(60_000);
    // The header `Date` has whole seconds.
    expect(fromMs).toBeGreaterThan(beganAtMs - 2_000);
    expect(fromMs).toBeLessThanOrEqual(sentAtMs);
  });

  it('draws the setpoint as the active one', async () => {
    const bar = page.locator('[data-lane="HIGH"][data-state="active"][data-past="false"]');
    await expect.poll(() => bar.count(), LIVE).toBe(1);
  });

  it('reads and draws the course up to now', async () => {
    const read = page.waitForResponse((answer) => new URL(answer.url()).searchParams.has('metric'));
    await page.reload();
    const answer = await read;
    const { searchParams } = new URL(answer.url());
    const nowMs = Date.now();
    expect(Math.abs(Date.parse(searchParams.get('to') ?? '') - nowMs)).toBeLessThan(SLACK_MS);
    expect(Math.abs(Date.parse(searchParams.get('from') ?? '') - (nowMs - 15 * MINUTE))).toBeLessThan(
      SLACK_MS,
    );
    const { readings } = (await answer.json()) as { readings: { timestamp: string }[] };
    expect(readings.length).toBeGreaterThan(0);
    expect(nowMs - Date.parse(readings.at(-1)?.timestamp ?? '')).toBeLessThan(SLACK_MS);
    const shownMs = () => page.getByRole('slider').getAttribute('aria-valuenow');
    await expect
      .poll(async () => Math.abs(Number(await shownMs()) - Date.now()), LIVE)
      .toBeLessThan(SLACK_MS);
  });

  it('asks for a moment of the past by the time of the platform', async () => {
    await page.getByRole('slider').press('ArrowLeft');
    await page.getByText('This page shows').waitFor();
    const atMs = Date.parse(new URL(page.url()).searchParams.get('at') ?? '');
    // One step is a sixtieth of what is shown.
    const stepMs = (15 * MINUTE * 9) / 8 / 60;
    expect(Math.abs(Date.now() - stepMs - atMs)).toBeLessThan(SLACK_MS);
    await page.getByRole('button', { name: 'Back to now' }).click();
  });

  it('shows the age of a reading', async () => {
    const measured = page.locator('.flow-panel time');
    await measured.waitFor();
    await expect.poll(() => ageFault(measured), LIVE).toBeLessThan(SLACK_MS);
  });

  it('shows the age of a change that was made before', async () => {
    await open('/webhooks');
    const changed = page.getByRole('region', { name: webhook }).locator('time').first();
    await changed.waitFor();
    await expect.poll(async () => (await shownAge(changed))[0], LIVE).toBeGreaterThan(2_000);
    expect(await ageFault(changed)).toBeLessThan(SLACK_MS);
  });

  it('asks for the events of the last hours of the platform', async () => {
    await open('/webhooks');
    const panel = page.getByRole('region', { name: webhook });
    await panel.getByText('Last attempts').click();
    // The body of a request that was cloned is not shown to the test: the page keeps it.
    await page.evaluate(() => {
      const real = globalThis.fetch;
      globalThis.fetch = async (input, init) => {
        if (input instanceof Request && input.url.endsWith('/recover'))
          Object.assign(globalThis, { recovered: await input.clone().text() });
        return await real(input, init);
      };
    });
    await panel.getByRole('button', { name: 'Deliver again' }).click();
    await page.waitForFunction(() => 'recovered' in globalThis);
    const text = await page.evaluate(() => (globalThis as unknown as { recovered: string }).recovered);
    const { since } = JSON.parse(text) as { since: string };
    expect(Math.abs(Date.now() - HOUR - Date.parse(since))).toBeLessThan(SLACK_MS);
  });

  it('lets a key expire after days of the platform', async () => {
    await open('/keys');
    await page.getByRole('button', { name: 'Create a key', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill(`Clock ${kw}`);
    await dialog.getByLabel('Partner id').fill('clock');
    await dialog.getByLabel('Expires after days').fill('2');
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await page.getByRole('dialog', { name: 'Your new key' }).waitFor();
    const { data } = await stack.call<{ data: { name: string; expiresAt: string }[] }>(
      '/partner/api-keys?limit=100',
    );
    const expiresAt = data.find(({ name }) => name === `Clock ${kw}`)?.expiresAt ?? '';
    expect(Math.abs(Date.now() + 48 * HOUR - Date.parse(expiresAt))).toBeLessThan(SLACK_MS);
  });

  it('causes an outcome that waits for its time, on the panel "Try it"', async () => {
    await open(`/sites/${stack.plantId}`);
    const panel = page.getByRole('region', { name: 'Try it' });
    await panel
      .getByRole('row', { name: 'QUEUED (its time has not come)' })
      .getByRole('button', { name: 'Run' })
      .click();
    await expect.poll(() => panel.getByRole('status').innerText(), LIVE).toMatch(/: (queued|rejected)/);
    expect(await panel.getByRole('status').innerText()).toContain(': queued');
  });

  it('says on each screen whether the clock is wrong', async () => {
    for (const path of ['/sites', '/devices', `/sites/${stack.plantId}`]) {
      await open(path);
      const notices = page.getByRole('status').filter({ hasText: NOTICE });
      if (notice === undefined) {
        await page.locator('tbody tr').first().waitFor();
        expect(await notices.count()).toBe(0);
      } else {
        await expect.poll(() => notices.count(), LIVE).toBe(1);
        expect(await notices.innerText()).toMatch(notice);
      }
    }
  });
});

describe.skipIf(!HAS_BROWSER)('the console on a computer whose clock is set while the page is open', () => {
  it.each([
    ['two hours back', -2 * HOUR, 41],
    ['two hours on', 2 * HOUR, 42],
  ] as const)('goes on to follow the site when the clock is set %s', async (_name, toMs, kw) => {
    const { page, context } = await stack.open();
    await skew(context, 0);
    await page.goto(`${stack.url}/sites/${stack.plantId}`);
    await page.getByLabel('E-mail').fill(stack.described.admin.email);
    await page.getByLabel('Password').fill(stack.described.admin.password);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('live', { exact: true }).waitFor();
    await page.evaluate((to) => (globalThis as unknown as { setClock(to: number): void }).setClock(to), toMs);
    const payload = {
      ...{ type: 'POWER', targetValueKw: kw, direction: 'IMPORT', includeConsumption: true },
      ...{ priority: 'HIGH', validFrom: new Date().toISOString() },
      validUntil: new Date(Date.now() + 30_000).toISOString(),
    };
    const body = { family: 'site-setpoint', payload, idempotencyKey: crypto.randomUUID() };
    const sent = await stack.call<Sent>(`/plants/${stack.plantId}/commands`, { method: 'POST', body });
    expect(sent.acknowledgement.status).toBe('ACCEPTED');
    await page
      .getByRole('row')
      .filter({ hasText: `${kw} kW IMPORT` })
      .waitFor({ timeout: 15_000 });
    await expect.poll(() => page.getByText('live', { exact: true }).count(), LIVE).toBe(1);
    await expect.poll(() => page.getByRole('status').filter({ hasText: NOTICE }).count(), LIVE).toBe(1);
    await page.evaluate(() => (globalThis as unknown as { setClock(to: number): void }).setClock(0));
    await expect.poll(() => page.getByRole('status').filter({ hasText: NOTICE }).count(), LIVE).toBe(0);
    await context.close();
  });
});
