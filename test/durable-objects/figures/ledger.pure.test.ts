/** What all objects have told: summed up, never back, and bounded [rule 9]. */
import { describe, expect, it } from 'vitest';
import { FIGURES_BOUNDS } from '../../../durable-objects/figures/bounds.ts';
import { expose } from '../../../durable-objects/figures/expose.ts';
import { Ledger } from '../../../durable-objects/figures/ledger.ts';
import type { QueueFigures, Report } from '../../../durable-objects/figures/report.ts';
import { parseExposition } from '../../support/exposition.ts';

const NOW = 1_000_000;

const site = (object: string, counts: Report['counts'], atMs = NOW): Report => ({
  ...{ object, class: 'Site', atMs, counts },
});
const queue = (name: string, changes: Partial<QueueFigures> = {}): QueueFigures => ({
  ...{ queue: name, ready: 0, unacked: 0, oldestMs: null, drops: {} },
  ...changes,
});
const vhost = (object: string, queues: QueueFigures[], counts: Report['counts'] = {}): Report => ({
  ...{ object, class: 'Vhost', atMs: NOW, counts },
  queues: { organization: 'acme', key: object, queues },
});

function told(...reports: Report[]): Ledger {
  const ledger = new Ledger([]);
  for (const report of reports) ledger.take(report, NOW);
  return ledger;
}

describe('counts', () => {
  it('are summed over objects', () => {
    const { totals } = told(site('a', { x: 3 }), site('b', { x: 4, y: 1 }));
    expect(Object.fromEntries(totals)).toEqual({ x: 7, y: 1 });
  });

  it('of a report that comes twice count once, and one that was lost is in the next', () => {
    const { totals } = told(site('a', { x: 3 }), site('a', { x: 3 }), site('a', { x: 9 }));
    expect(Object.fromEntries(totals)).toEqual({ x: 9 });
  });

  it('never go back: of an object that was restored nothing counts until it is past what it told', () => {
    const ledger = told(site('a', { x: 9 }), site('a', { x: 2 }));
    expect(ledger.totals.get('x')).toBe(9);
    ledger.take(site('a', { x: 11 }), NOW);
    expect(ledger.totals.get('x')).toBe(11);
  });

  it('of a key that is over stay, and its queues go', () => {
    const ledger = told(vhost('a', [queue('q')], { x: 5 }));
    const over: Report = { object: 'a', class: 'Vhost', atMs: NOW, counts: { x: 5 }, isOver: true };
    ledger.take(over, NOW);
    ledger.take(over, NOW);
    expect([ledger.totals.get('x'), ledger.queues()]).toEqual([5, []]);
  });

  it('that the Worker adds are added up', () => {
    const ledger = told();
    ledger.add({ x: 2 });
    ledger.add({ x: 3, y: 1 });
    expect(Object.fromEntries(ledger.totals)).toEqual({ x: 5, y: 1 });
  });

  it('are the same again from what is stored', () => {
    const ledger = told(
      site('a', { x: 3 }),
      vhost('b', [queue('q', { ready: 2 })], { x: 1 }),
      vhost('c', [queue('q')]),
    );
    ledger.add({ z: 4 });
    ledger.take({ object: 'c', class: 'Vhost', atMs: NOW, counts: { x: 8 }, isOver: true }, NOW);
    const stored = ledger
      .takeChanged()
      .flatMap(([object, entry]) => (entry ? [[object, entry] as const] : []));
    expect(ledger.isChanged).toBe(false);
    const again = new Ledger(stored.map(([object, entry]) => [object, structuredClone(entry)]));
    expect(expose(again, 'v', NOW + 300_000)).toBe(
      // Who is awake is known since its wake alone.
      expose(ledger, 'v', NOW + 300_000),
    );
  });
});

it('a report that comes behind a later one changes nothing', () => {
  const late = { ...vhost('a', [queue('q', { ready: 9 })]), atMs: NOW - 1 };
  const ledger = told(vhost('a', [queue('q', { ready: 2 })]), late);
  expect(ledger.queues()[0]?.queues[0]?.ready).toBe(2);
});

describe('an answer', () => {
  it('has every series of the closed lists from the beginning, as 0', () => {
    const families = parseExposition(expose(new Ledger([]), 'v', NOW));
    const acknowledgements = families.get('sitewire_edge_command_acknowledgements_total');
    expect(acknowledgements?.samples).toHaveLength(9);
    expect(acknowledgements?.samples).toContainEqual(
      expect.objectContaining({
        labels: { status: 'REJECTED', code: 'DEVICE_FAULT' },
        value: 0,
      }),
    );
    expect(families.get('sitewire_edge_http_answers_total')?.samples).toContainEqual(
      expect.objectContaining({
        labels: { code: '503' },
        value: 0,
      }),
    );
  });

  it('shows what newer code counts, too', () => {
    const families = parseExposition(expose(told(site('a', { 'alarms/NEW': 2 })), 'v', NOW));
    const labels = { type: 'NEW' };
    expect(families.get('sitewire_edge_alarms_raised_total')?.samples).toContainEqual(
      expect.objectContaining({ labels, value: 2 }),
    );
  });

  it('tells the age of the oldest message as it is then', () => {
    const text = expose(told(vhost('k', [queue('q', { ready: 1, oldestMs: NOW - 90_500 })])), 'v', NOW);
    expect(text).toContain(
      'sitewire_edge_queue_oldest_message_age_seconds{organization="acme",key="k",queue="q"} 90.5\n',
    );
  });

  it('counts as awake who told anything within five minutes', () => {
    const ledger = told(site('a', {}), site('b', {}), vhost('c', []));
    ledger.take(site('a', {}), NOW + 200_000);
    const text = expose(ledger, 'v', NOW + 300_000);
    expect(text).toContain('awake{class="Site"} 1\n');
    expect(text).toContain('awake{class="Vhost"} 0\n');
  });
});

describe('the bounds [rule 9]', () => {
  it('more objects than there is room for are left out and counted; those there are go on', () => {
    const ledger = new Ledger([]);
    for (let index = 0; index < FIGURES_BOUNDS.objects + 5; index++)
      ledger.take(site(`${index}`, { x: 1 }), NOW);
    ledger.take(site('0', { x: 4 }), NOW);
    expect([ledger.totals.get('x'), ledger.leftOut.report]).toEqual([FIGURES_BOUNDS.objects + 3, 5]);
  });

  it('more queues than there is room for are left out and counted; room that a key leaves is taken', () => {
    const names = Array.from({ length: 37 }, (_none, index) => queue(`q${index}`));
    const ledger = new Ledger([]);
    const keys = Math.ceil(FIGURES_BOUNDS.queues / 37) + 1;
    for (let index = 0; index < keys; index++) ledger.take(vhost(`${index}`, names), NOW);
    const count = () => ledger.queues().reduce((sum, { queues }) => sum + queues.length, 0);
    expect([count(), ledger.leftOut.queue]).toEqual([
      FIGURES_BOUNDS.queues,
      keys * 37 - FIGURES_BOUNDS.queues,
    ]);
    ledger.take({ object: '0', class: 'Vhost', atMs: NOW, counts: {}, isOver: true }, NOW);
    ledger.take(vhost(`${keys - 1}`, [...names, queue('one more')]), NOW);
    expect(count()).toBe(FIGURES_BOUNDS.queues);
  });

  it('an answer of as many queues as there may be, of the longest names, is no longer than a call may carry', () => {
    const name = (index: number) => `${index}`.padEnd(255, '"');
    const drops = { limit: 1, age: 1, deliveries: 1, rejected: 1 };
    const all = Array.from({ length: FIGURES_BOUNDS.queues }, (_none, index) =>
      queue(name(index), { ready: 1, unacked: 1, oldestMs: 0, drops }),
    );
    const text = expose(told(vhost(crypto.randomUUID(), all)), 'v', NOW);
    expect(text.length).toBeLessThan(32 * 1_024 * 1_024);
  });

  it('an object has so many counts, whatever it tells', () => {
    const counts = Object.fromEntries(Array.from({ length: 300 }, (_none, index) => [`x${index}`, 1]));
    expect(told(site('a', counts)).totals.size).toBe(FIGURES_BOUNDS.counts);
  });
});
