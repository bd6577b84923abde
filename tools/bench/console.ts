/**
 * The console in a browser: what a reader waits for. Times are those of the browser's main thread, so a slow disk or a
 * busy edge does not change them.
 */
import { randomUUID } from 'node:crypto';
import { type Browser, type CDPSession, chromium, type Page } from 'playwright-core';
import { AdminClient } from '../admin-client.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { median, percentile, report } from './figures.ts';

const CHROMIUM = '/usr/bin/chromium';
const DAY_MS = 86_400_000;
const DAY_READINGS = DAY_MS / 5_000;
const FEW_READINGS = 100;
const RUNS = 7;
const EVENTS_PER_SECOND = 50;
const MINUTE_MS = 60_000;
const SITES = 1_000;
/** Sites that are created at the same time. */
const MAKERS = 8;
const SCROLL_MS = 10_000;

export async function benchConsole(minutes = 5): Promise<void> {
  const stack = await startBenchStack({ plants: 1 });
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--js-flags=--expose-gc'],
  });
  try {
    const page = await logIn(browser, stack);
    const ready = await firstLoad(browser, stack);
    const day = await drawingOf(DAY_READINGS, page, stack);
    const few = await drawingOf(FEW_READINGS, page, stack);
    const tail = await eventTail(page, stack, minutes);
    const list = await manySites(page, stack);
    report('console', 'The console in Chromium, edge and browser on one machine', [
      { name: 'first load until the form can be used, p50', value: ready, unit: 'ms', target: '≤ 1000' },
      {
        name: 'a day of 17 280 readings: main thread from the answer to the picture, p50',
        value: day,
        unit: 'ms',
        target: '≤ 100',
      },
      { name: `the same with ${FEW_READINGS} readings`, value: few, unit: 'ms' },
      {
        name: `${EVENTS_PER_SECOND} events a second: frames a second, 5th percentile`,
        value: tail.frames,
        unit: 'fps',
        target: '≥ 30',
      },
      { name: 'the same: heap of the page after a minute', value: tail.firstMb, unit: 'MB' },
      {
        name: `the same: heap of the page after ${minutes} minutes`,
        value: tail.lastMb,
        unit: 'MB',
        target: 'flat',
      },
      { name: `the list of ${SITES} sites, until its last row is there, p50`, value: list.shown, unit: 'ms' },
      { name: 'the same: main thread for each letter of a search, p50', value: list.search, unit: 'ms' },
      {
        name: 'the same: frames a second while it is scrolled, 5th percentile',
        value: list.frames,
        unit: 'fps',
      },
    ]);
  } finally {
    await browser.close();
    await stack.stop();
  }
}

async function logIn(browser: Browser, { edge, login }: BenchStack): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(edge.url);
  await page.getByLabel('E-mail').fill(login.email);
  await page.getByLabel('Password').fill(login.password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('navigation').waitFor();
  return page;
}

/** Each time in a browser that has nothing stored. */
async function firstLoad(browser: Browser, { edge }: BenchStack): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const began = performance.now();
    await page.goto(edge.url);
    await page.getByLabel('E-mail').fill('a');
    times.push(performance.now() - began);
    await context.close();
  }
  return median(times);
}

/** Main thread time of drawing a day of so many readings, without the wait for the answer. */
async function drawingOf(count: number, page: Page, { edge, plants }: BenchStack): Promise<number> {
  await page.route(/\/telemetry\?/, async (route) => {
    const to = Date.now();
    const readings = Array.from({ length: count }, (_, index) => ({
      timestamp: new Date(to - DAY_MS + (index * DAY_MS) / count).toISOString(),
      value: Math.round(1_000 * Math.sin(index / 300)) / 100,
    }));
    await route.fulfill({ json: { readings } });
  });
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    await page.goto(`${edge.url}/sites/${plants[0]?.id}`);
    await page.locator('canvas').waitFor();
    await settled(page);
    const before = await taskMs(session);
    const answer = page.waitForResponse(/\/telemetry\?/);
    await page.getByRole('button', { name: '1d' }).click();
    await answer;
    await settled(page);
    times.push((await taskMs(session)) - before);
  }
  await page.unroute(/\/telemetry\?/);
  return median(times);
}

/** Two frames after the page had nothing to do. */
async function settled(page: Page): Promise<void> {
  await page.evaluate(
    () =>
      new Promise<void>((resolve) =>
        requestIdleCallback(() => requestAnimationFrame(() => requestAnimationFrame(() => resolve()))),
      ),
  );
}

async function taskMs(session: CDPSession): Promise<number> {
  const { metrics } = await session.send('Performance.getMetrics');
  return 1_000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0);
}

/** Rejected commands at a steady rate: each is one event. */
async function eventTail(page: Page, { edge, plants, key }: BenchStack, minutes: number) {
  const plantId = plants[0]?.id ?? '';
  await page.goto(`${edge.url}/events?plant=${plantId}`);
  await page.getByText('live', { exact: true }).waitFor();
  const send = async () => {
    const timestamp = new Date().toISOString();
    const head = { version: '1.1', messageId: randomUUID(), timestamp, source: 'bench', siteId: plantId };
    const message = JSON.stringify({ ...head, payload: { mode: 'NONE' } });
    const body = JSON.stringify({ routingKey: 'acme.command.mode', message });
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const url = `${edge.url}/api/v1/vcp/sites/${plantId}/commands`;
    if (!(await fetch(url, { method: 'POST', headers, body })).ok) throw new Error('refused');
  };
  let failed = 0;
  const timer = setInterval(() => void send().catch(() => (failed += 1)), 1_000 / EVENTS_PER_SECOND);
  try {
    await page.locator('.tail li').nth(50).waitFor();
    const frames: number[] = [];
    const heaps: number[] = [];
    for (let minute = 0; minute < minutes; minute++) {
      frames.push(...(await framesOf(page, MINUTE_MS)));
      heaps.push(await heapMb(page));
    }
    if (failed > 0) throw new Error(`${failed} commands got no answer, so there were fewer events`);
    return { frames: percentile(frames, 0.05), firstMb: heaps[0] ?? 0, lastMb: heaps.at(-1) ?? 0 };
  } finally {
    clearInterval(timer);
  }
}

/** The list of sites of a large organization. */
async function manySites(page: Page, { edge, login, organizations }: BenchStack) {
  const client = await AdminClient.enter(edge.url, login);
  client.organizationId = organizations[0]?.id ?? '';
  const names = Array.from({ length: SITES - 1 }, (_, index) => `Site ${index}`);
  const make = async () => {
    for (let name = names.pop(); name !== undefined; name = names.pop())
      await client.call('POST', '/plants', { name, timezone: 'UTC' });
  };
  await Promise.all(Array.from({ length: MAKERS }, make));
  const shown: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    await page.goto(`${edge.url}/alerts`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    const began = performance.now();
    await page.getByRole('link', { name: 'Sites' }).click();
    await page
      .locator('tbody tr')
      .nth(SITES - 1)
      .waitFor({ state: 'attached' });
    shown.push(performance.now() - began);
  }
  await settled(page);
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const search: number[] = [];
  for (const letter of 'Site 777') {
    const before = await taskMs(session);
    await page.getByRole('searchbox').press(letter === ' ' ? 'Space' : letter);
    await settled(page);
    search.push((await taskMs(session)) - before);
  }
  await page.getByRole('searchbox').fill('');
  await settled(page);
  const counting = framesOf(page, SCROLL_MS);
  for (const until = Date.now() + SCROLL_MS; Date.now() < until; ) {
    await page.mouse.wheel(0, 400);
    await settled(page);
  }
  return { shown: median(shown), search: median(search), frames: percentile(await counting, 0.05) };
}

/** Frames in each second of a time. */
async function framesOf(page: Page, durationMs: number): Promise<number[]> {
  return await page.evaluate(
    (lastsMs) =>
      new Promise<number[]>((resolve) => {
        const counts: number[] = [];
        let count = 0;
        let secondAt = performance.now();
        const endsAt = secondAt + lastsMs;
        const frame = (now: number) => {
          count += 1;
          if (now - secondAt >= 1_000) {
            counts.push((count * 1_000) / (now - secondAt));
            count = 0;
            secondAt = now;
          }
          if (now < endsAt) requestAnimationFrame(frame);
          else resolve(counts);
        };
        requestAnimationFrame(frame);
      }),
    durationMs,
  );
}

async function heapMb(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize / 1e6;
}
