/**
 * What one account at its full rate costs: the admin of one organization writes as often as its restRatePerMinute
 * allows, one kind of request after the other, for the given minutes. Measures how much D1 grows, and how long the
 * lists of another organization take, compared with the seconds before each kind. At the end it does the same for a
 * minute with all kinds in turn at the highest rate that an admin can choose, the ceiling. Nothing is pinned.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { ceilingsOf } from '../../protocol/ceilings.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { AdminClient } from '../admin-client.ts';
import { type AccountWrite, accountWrites } from './account-writes.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, median, percentile, report } from './figures.ts';
import { repeat } from './plant-load.ts';

const MINUTES = 10;
const MINUTE_MS = 60_000;
const QUIET_MS = 5_000;
const WARM_UP_MS = 10_000;
const LIST_PAUSE_MS = 50;
/** Maximum number of unanswered requests; when it is reached, the account waits. */
const MAX_OPEN = 50;
const CEILING_MS = Number(process.env.SITEWIRE_BENCH_CEILING_MS ?? MINUTE_MS);
const LISTS = ['/plants', '/devices', '/alerts?kind=RULE', '/audit-events'];
const MIB = 1_024 * 1_024;
const SCALED_MINUTES = 10;

interface Stretch {
  name: string;
  /** p50 of the other organization's list requests, before and during the writes. */
  quietMs: number;
  meanwhileMs: number;
  grownBytes: number;
  seconds: number;
  statuses: Record<number, number>;
}

interface Sides {
  stack: BenchStack;
  other: AdminClient;
}

export async function benchStrangersAccount(minutes: number = MINUTES): Promise<void> {
  const stack = await startBenchStack({
    organizations: [
      { slug: 'acme', plants: 1, settings: { restRatePerMinute: LIMIT.requestsPerMinute }, ceilings: {} },
      { slug: 'other', plants: 20 },
    ],
    pinned: false,
  });
  const [own, others] = stack.organizations;
  const [plant] = stack.plants;
  if (!own || !others || !plant)
    throw new Error(
      'The stack of this benchmark has no second organization or no plant: a bug of the benchmark',
    );
  const enter = async ({ id, admin: login }: typeof own) => {
    const admin = await AdminClient.enter(stack.edge.url, login);
    admin.organizationId = id;
    return admin;
  };
  const admin = await enter(own);
  const sides: Sides = { stack, other: await enter(others) };
  const writes = await accountWrites(admin, plant.id);
  await listFor(sides, WARM_UP_MS);

  const stretches: Stretch[] = [];
  const ms = (minutes * MINUTE_MS) / writes.length;
  for (const write of writes) {
    stretches.push(await measure(sides, write, { perMinute: LIMIT.requestsPerMinute, ms }));
  }
  const { restRatePerMinute: perMinute } = ceilingsOf({});
  await admin.call('PATCH', `/organizations/${own.id}`, { settings: { restRatePerMinute: perMinute } });
  let turn = 0;
  const any: AccountWrite = {
    name: 'all kinds in turn, at the ceiling',
    send: async () => await (writes[turn++ % writes.length] as AccountWrite).send(),
  };
  const highest = await measure(sides, any, { perMinute, ms: CEILING_MS });
  await stack.stop();
  report(
    'strangers-account',
    `one account at ${LIMIT.requestsPerMinute} requests a minute for ${minutes} minutes, then at ${perMinute}`,
    [
      ...stretches.map(growthOf),
      { ...growthOf(sumOf(stretches)), target: '< 20' },
      ratioOf("another organization's lists", stretches),
      ...ownFigures(highest),
    ],
  );
}

async function measure(
  sides: Sides,
  { name, send }: AccountWrite,
  { perMinute, ms }: { perMinute: number; ms: number },
): Promise<Stretch> {
  const quiet = await listFor(sides, QUIET_MS);
  const before = await sizeOf(sides.stack);
  const startedAt = performance.now();
  const [meanwhile, statuses] = await Promise.all([listFor(sides, ms), writeFor(ms, perMinute, send)]);
  const seconds = (performance.now() - startedAt) / 1_000;
  const stretch: Stretch = {
    name,
    quietMs: percentile(quiet, 0.5),
    meanwhileMs: percentile(meanwhile, 0.5),
    grownBytes: (await sizeOf(sides.stack)) - before,
    seconds,
    statuses,
  };
  console.log(
    `  ${name}: ${stretch.quietMs.toFixed(1)} → ${stretch.meanwhileMs.toFixed(1)} ms, ${(stretch.grownBytes / MIB).toFixed(2)} MiB in ${seconds.toFixed(0)} s, ${JSON.stringify(statuses)}`,
  );
  return stretch;
}

/** Sends at the given rate; returns how many answers there were of each status. */
async function writeFor(
  ms: number,
  perMinute: number,
  send: () => Promise<number>,
): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  const open = new Set<Promise<void>>();
  const startedAt = performance.now();
  for (let moment = 0; moment < ms; moment += MINUTE_MS / perMinute) {
    await pause(Math.max(0, startedAt + moment - performance.now()));
    if (performance.now() - startedAt >= ms) break;
    if (open.size >= MAX_OPEN) await Promise.race(open);
    const sent = send().then((status) => {
      statuses[status] = (statuses[status] ?? 0) + 1;
      open.delete(sent);
    });
    open.add(sent);
  }
  await Promise.all(open);
  return statuses;
}

/** The admin of the other organization reads its lists, one request at a time. */
async function listFor({ other }: Sides, ms: number): Promise<number[]> {
  const times: number[] = [];
  const untilMs = performance.now() + ms;
  let turn = 0;
  await repeat(
    1,
    () => performance.now() >= untilMs,
    async () => {
      const startedAt = performance.now();
      await other.call('GET', LISTS[turn++ % LISTS.length] ?? '');
      times.push(performance.now() - startedAt);
      await pause(LIST_PAUSE_MS);
    },
  );
  return times;
}

/** Bytes of the database. */
async function sizeOf({ edge }: BenchStack): Promise<number> {
  const database = await edge.miniflare.getD1Database('DB');
  return (await database.prepare('SELECT 1').run()).meta.size_after;
}

function sumOf(stretches: readonly Stretch[]): Pick<Stretch, 'name' | 'grownBytes' | 'seconds'> {
  const total = (of: (stretch: Stretch) => number) => stretches.reduce((sum, one) => sum + of(one), 0);
  return {
    name: 'all kinds',
    grownBytes: total(({ grownBytes }) => grownBytes),
    seconds: total(({ seconds }) => seconds),
  };
}

function growthOf({ name, grownBytes, seconds }: Pick<Stretch, 'name' | 'grownBytes' | 'seconds'>): Figure {
  const perMinute = (grownBytes / MIB / seconds) * 60;
  return { name: `D1 in ten minutes, ${name}`, value: perMinute * SCALED_MINUTES, unit: 'MiB' };
}

function ratioOf(name: string, stretches: readonly Stretch[]): Figure {
  const ratios = stretches.map(({ quietMs, meanwhileMs }) => meanwhileMs / quietMs);
  return {
    name: `${name}: p50, with / before`,
    value: median(ratios),
    unit: '',
    least: Math.min(...ratios),
    most: Math.max(...ratios),
    target: '≤ 1.5',
  };
}

function ownFigures(stretch: Stretch): Figure[] {
  const { name, quietMs, meanwhileMs, seconds, statuses } = stretch;
  const done = Object.entries(statuses).filter(([status]) => Number(status) < 300);
  const perMinute = (done.reduce((sum, [, count]) => sum + count, 0) / seconds) * 60;
  return [
    growthOf(stretch),
    { name: `writes that succeeded, ${name}`, value: perMinute, unit: '1/min' },
    { name: `another organization's lists, p50 before, ${name}`, value: quietMs, unit: 'ms' },
    { name: `another organization's lists, p50, ${name}`, value: meanwhileMs, unit: 'ms' },
    { name: `another organization's lists: with / before, ${name}`, value: meanwhileMs / quietMs, unit: '' },
  ];
}
