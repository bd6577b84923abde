/** The metrics ledger: reports of all objects, summed, stored and bounded [rule 9]. */
import { describe, expect, it } from 'vitest';
import { parseExposition } from '#support/exposition.ts';
import { expose } from '../../../durable-objects/metrics/expose.ts';
import { type Entry, Ledger, METRICS_BOUNDS } from '../../../durable-objects/metrics/ledger.ts';
import type { QueueMetrics, Report } from '../../../durable-objects/metrics/report.ts';

const NOW = 1_000_000;

const site = (object: string, atMs = NOW): Report => ({ object, class: 'Site', atMs });
const queue = (name: string, changes: Partial<QueueMetrics> = {}): QueueMetrics => ({
  ...{ queue: name, ready: 0, unacked: 0, oldestMs: null, drops: {} },
  ...changes,
});
const vhost = (object: string, queues: QueueMetrics[], organization = 'acme'): Report => ({
  ...{ object, class: 'Vhost', atMs: NOW },
  queues: { organization, key: object, queues },
});
const over = (object: string): Report => ({ object, class: 'Vhost', atMs: NOW, isOver: true });

function ledgerOf(...reports: Report[]): Ledger {
  const ledger = new Ledger({}, []);
  for (const report of reports) ledger.take(report, NOW);
  return ledger;
}

it('the metrics ledger adds up counts', () => {
  const ledger = ledgerOf();
  ledger.add({ x: 2 });
  ledger.add({ x: 3, y: 1 });
  expect(Object.fromEntries(ledger.totals)).toEqual({ x: 5, y: 1 });
});

it('the metrics ledger removes the queues of a key that has ended', () => {
  const ledger = ledgerOf(vhost('a', [queue('q')]), vhost('b', [queue('r')]), over('a'), over('a'));
  expect(ledger.queues().map(({ key }) => key)).toEqual(['b']);
});

it('the metrics ledger gives the same answer after it was stored and read back', () => {
  const ledger = ledgerOf(site('a'), vhost('b', [queue('q', { ready: 2 })]), vhost('c', [queue('q')]));
  ledger.add({ z: 4 });
  const first = ledger.takeUnstored();
  expect([ledger.isChanged, ledger.takeUnstored()]).toEqual([false, { totals: undefined, entries: [] }]);
  ledger.take(over('c'), NOW);
  const rows = new Map(structuredClone(first.entries));
  for (const [object, entry] of ledger.takeUnstored().entries) rows.set(object, entry);
  const stored = [...rows].flatMap(([object, entry]) => (entry ? [[object, entry] as const] : []));
  expect(stored.map(([object]) => object)).toEqual(['a', 'b']);
  const again = new Ledger(first.totals ?? {}, stored as [string, Entry][]);
  // The ledger knows which objects are awake only since it started.
  expect(expose(again, 'v', NOW + 300_000)).toBe(expose(ledger, 'v', NOW + 300_000));
});

it('the metrics ledger ignores a report that is older than the last one of its object', () => {
  const late = { ...vhost('a', [queue('q', { ready: 9 })]), atMs: NOW - 1 };
  const ledger = ledgerOf(vhost('a', [queue('q', { ready: 2 })]), late);
  expect(ledger.queues()[0]?.queues[0]?.ready).toBe(2);
});

describe('the answer to a scrape', () => {
  const sample = (labels: Record<string, string>, value: number) =>
    expect.objectContaining({ labels, value });

  it('has every series whose labels are known in advance, with 0, before anything was counted', () => {
    const families = parseExposition(expose(new Ledger({}, []), 'v', NOW));
    const acknowledgements = families.get('sitewire_edge_command_acknowledgements_total');
    expect(acknowledgements?.samples).toHaveLength(9);
    expect(acknowledgements?.samples).toContainEqual(sample({ status: 'REJECTED', code: 'DEVICE_FAULT' }, 0));
    const answers = families.get('sitewire_edge_http_answers_total');
    expect(answers?.samples).toContainEqual(sample({ code: '503' }, 0));
  });

  it('includes counts with labels that this code does not know, as newer code sends them', () => {
    const ledger = ledgerOf();
    ledger.add({ 'alarms/NEW': 2 });
    const families = parseExposition(expose(ledger, 'v', NOW));
    const alarms = families.get('sitewire_edge_alarms_raised_total');
    expect(alarms?.samples).toContainEqual(sample({ type: 'NEW' }, 2));
  });

  it('gives the age of the oldest message at the time of the scrape', () => {
    const text = expose(ledgerOf(vhost('k', [queue('q', { ready: 1, oldestMs: NOW - 90_500 })])), 'v', NOW);
    expect(text).toContain(
      'sitewire_edge_queue_oldest_message_age_seconds{organization="acme",key="k",queue="q"} 90.5\n',
    );
  });

  it('counts an object as awake if its last report is less than five minutes old', () => {
    const ledger = ledgerOf(site('a'), site('b'), vhost('c', []));
    ledger.take(site('a'), NOW + 200_000);
    const text = expose(ledger, 'v', NOW + 300_000);
    expect(text).toContain('awake{class="Site"} 1\n');
    expect(text).toContain('awake{class="Vhost"} 0\n');
  });
});

describe('the bounds of the metrics ledger [rule 9]', () => {
  const LEFT_OUT = 'left_out/report';

  it('objects beyond the maximum are left out and counted; those already known can still report', () => {
    const ledger = new Ledger({}, []);
    for (let index = 0; index < METRICS_BOUNDS.objects + 5; index++) ledger.take(site(`${index}`), NOW);
    ledger.take(site('0', NOW + 1), NOW + 1);
    expect(ledger.seenSince('Site', 0)).toBe(METRICS_BOUNDS.objects);
    expect([ledger.seenSince('Site', NOW), ledger.totals.get(LEFT_OUT)]).toEqual([1, 5]);
  });

  it('an object that sent no report for a day is forgotten, unless it has queues', () => {
    const DAY_MS = 24 * 3_600_000;
    const ledger = ledgerOf(site('a'), vhost('b', [queue('q')]), site('c'));
    ledger.take(site('a', NOW + 1), NOW + 1);
    ledger.takeUnstored();
    ledger.forgetQuiet(NOW + DAY_MS);
    expect(ledger.takeUnstored().entries).toEqual([['c', undefined]]);
    ledger.forgetQuiet(NOW + 1 + DAY_MS);
    expect(ledger.takeUnstored().entries).toEqual([['a', undefined]]);
    expect(ledger.queues()).toHaveLength(1);
  });

  it('queues beyond the maximum are left out and counted; those of an ended key make room for others', () => {
    const names = Array.from({ length: 37 }, (_none, index) => queue(`q${index}`));
    const ledger = new Ledger({}, []);
    const keys = Math.ceil(METRICS_BOUNDS.queues / 37) + 1;
    const ofKey = (index: number, more: QueueMetrics[] = []) =>
      vhost(`${index}`, [...names, ...more], `organization ${index % 20}`);
    for (let index = 0; index < keys; index++) ledger.take(ofKey(index), NOW);
    const count = () => ledger.queues().reduce((sum, { queues }) => sum + queues.length, 0);
    expect([count(), ledger.totals.get('left_out/queue')]).toEqual([
      METRICS_BOUNDS.queues,
      keys * 37 - METRICS_BOUNDS.queues,
    ]);
    ledger.take(over('0'), NOW);
    ledger.take(ofKey(keys - 1, [queue('one more')]), NOW);
    expect(count()).toBe(METRICS_BOUNDS.queues);
  });

  it('an organization with more queues than its share has the rest left out and counted; another one has its own', () => {
    const names = Array.from({ length: 37 }, (_none, index) => queue(`q${index}`));
    const ledger = new Ledger({}, []);
    for (let index = 0; index < 20; index++) ledger.take(vhost(`${index}`, names), NOW);
    ledger.take(vhost('other', names, 'other'), NOW);
    const count = (of: string) =>
      ledger.queues().reduce((sum, one) => sum + (one.organization === of ? one.queues.length : 0), 0);
    expect([count('acme'), count('other')]).toEqual([METRICS_BOUNDS.queuesOfOrganization, 37]);
    expect(ledger.totals.get('left_out/queue')).toBe(20 * 37 - METRICS_BOUNDS.queuesOfOrganization);
    ledger.take(over('0'), NOW);
    ledger.take(vhost('19', [...names, queue('one more')]), NOW);
    expect(count('acme')).toBe(METRICS_BOUNDS.queuesOfOrganization);
  });

  it('the maximum number of queues with the longest names still fits into one call of 32 MiB', () => {
    const name = (index: number) => `${index}`.padEnd(255, '"');
    const drops = { limit: 1, age: 1, deliveries: 1, rejected: 1 };
    const all = Array.from({ length: METRICS_BOUNDS.queues }, (_none, index) =>
      queue(name(index), { ready: 1, unacked: 1, oldestMs: 0, drops }),
    );
    const text = expose(ledgerOf(vhost(crypto.randomUUID(), all)), 'v', NOW);
    expect(text.length).toBeLessThan(32 * 1_024 * 1_024);
  });

  it('counters beyond the maximum are left out and their values counted; known ones still count', () => {
    const ledger = ledgerOf();
    ledger.add(
      Object.fromEntries(Array.from({ length: METRICS_BOUNDS.counts + 3 }, (_none, n) => [`x${n}`, 2])),
    );
    ledger.add({ x0: 1 });
    const { x0, 'left_out/count': leftOut } = Object.fromEntries(ledger.totals);
    expect([x0, leftOut, ledger.totals.size]).toEqual([3, 6, METRICS_BOUNDS.counts + 1]);
  });
});
