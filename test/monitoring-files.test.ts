/**
 * The alert rules and the dashboard: every metric that they query exists, and each alert has a paragraph on
 * the response to it.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { Metrics } from '../bridge/metrics.ts';
import { FAMILIES } from '../durable-objects/metrics/families.ts';

const FOLDER = join(import.meta.dirname, '..', 'docs', 'monitoring');
const RULES_FILE = join(FOLDER, 'alert-rules.yml');
/** Metrics of Prometheus itself, and labels that it adds. */
const OWN_FAMILIES = ['up'];
const OWN_LABELS = ['job', 'instance', 'le'];
/** Words in expressions other than metric and label names. */
const WORDS =
  /^(sum|min|topk|by|rate|increase|time|and|for|on|offset|scalar|histogram_quantile|[\d.]+(e\d+|[mh])?|\$__rate_interval)$/;

interface Rule {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook_url: string };
}
interface Panel {
  title: string;
  type: string;
  targets?: { expr: string; legendFormat: string }[];
}

const rules = (
  parse(readFileSync(RULES_FILE, 'utf8')) as { groups: { name: string; rules: Rule[] }[] }
).groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(readFileSync(join(FOLDER, 'grafana-dashboard.json'), 'utf8')) as {
  panels: Panel[];
};
const isPromtoolThere = spawnSync('promtool', ['--version']).status === 0;

/** Metrics and their labels, as the platform exposes them. */
async function known(): Promise<Map<string, readonly string[]>> {
  const metrics = await new Metrics().registry.getMetricsAsJSON();
  const families = new Map<string, readonly string[]>(OWN_FAMILIES.map((name) => [name, []]));
  for (const { name, labels } of FAMILIES) families.set(name, labels);
  for (const { name, type, values } of metrics) {
    const labels = [...new Set(values.flatMap((value) => Object.keys(value.labels)))];
    const names =
      String(type) === 'histogram' ? ['_bucket', '_sum', '_count'].map((end) => name + end) : [name];
    for (const one of names) families.set(one, labels);
  }
  return families;
}

/** Names of metrics in an expression, and names of labels. */
function namesIn(expr: string): { families: string[]; labels: string[] } {
  const inBraces = [...expr.matchAll(/\{([^}]*)\}/g)].flatMap(([, inside = '']) =>
    [...inside.matchAll(/(\w+)\s*[=!]/g)].map(([, label = '']) => label),
  );
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, inside = '']) => inside.split(/,\s*/));
  const rest = expr
    .replace(/\{[^}]*\}|\bby \([^)]*\)/g, ' ')
    .replace(/\[[^\]]*\]/g, ' ')
    .split(/[^\w$.]+/)
    .filter((word) => word !== '' && !WORDS.test(word));
  return { families: rest, labels: [...inBraces, ...grouped] };
}

describe('the alert rules', () => {
  it.each(rules.map((rule) => [rule.alert, rule] as const))(
    '%s queries existing metrics, and has a description of the response',
    async (name, { expr, labels, annotations }) => {
      await expectKnown(expr);
      expect(name).toMatch(/^Sitewire[A-Z]\w+$/);
      expect(['page', 'ticket']).toContain(labels.severity);
      expect(annotations.summary).toBeTruthy();
      expect(annotations.description).toMatch(/\.$/);
    },
  );

  it('have one paragraph each, and every paragraph has a rule', () => {
    const guide = readFileSync(join(FOLDER, 'alerts.md'), 'utf8');
    const paragraphs = [...guide.matchAll(/^### (\w+)\n(.+)/gm)].map(([, title]) => title);
    expect(paragraphs).toEqual(rules.map(({ alert }) => alert));
    expect(new Set(paragraphs).size).toBe(paragraphs.length);
  });

  it('name the paragraph of what to do as their runbook_url', () => {
    for (const { alert, annotations } of rules)
      expect(annotations.runbook_url).toBe(`docs/monitoring/alerts.md#${alert.toLowerCase()}`);
  });

  it('fire before D1 has its 10 GB: a ticket at 7 GB, in time to make room, and a page at 9 GB', () => {
    const ofDatabase = rules.filter(({ expr }) => expr.includes('sitewire_edge_database_bytes'));
    expect(ofDatabase.map(({ expr, labels }) => [expr, labels.severity])).toEqual([
      ['sitewire_edge_database_bytes > 7e9', 'ticket'],
      ['sitewire_edge_database_bytes > 9e9', 'page'],
    ]);
  });

  it.skipIf(!isPromtoolThere)('are valid according to promtool', () => {
    expect(execFileSync('promtool', ['check', 'rules', RULES_FILE]).toString()).toContain(
      `${rules.length} rules found`,
    );
  });
});

describe('the dashboard', () => {
  const panels = dashboard.panels.filter(({ type }) => type !== 'row');

  it.each(panels.map((panel) => [panel.title, panel] as const))(
    'queries existing metrics: %s',
    async (_title, panel) => {
      expect(panel.targets?.length).toBeGreaterThan(0);
      for (const { expr, legendFormat } of panel.targets ?? []) {
        const labels = await expectKnown(expr);
        for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) expect(labels).toContain(label);
      }
    },
  );

  it('shows each metric of ours that no alert rule queries, except build_info', async () => {
    const shown = panels.flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => namesIn(expr).families));
    const alerted = rules.flatMap(({ expr }) => namesIn(expr).families);
    const ours = [...(await known()).keys()].filter(
      (name) => /^sitewire_/.test(name) && !/_(sum|count)$/.test(name),
    );
    const unseen = ours.filter(
      (name) => ![...shown, ...alerted].includes(name) && !name.endsWith('_build_info'),
    );
    expect(unseen).toEqual([]);
  });
});

/** The labels of its metrics. */
async function expectKnown(expr: string): Promise<string[]> {
  const families = await known();
  const names = namesIn(expr);
  expect(names.families.length).toBeGreaterThan(0);
  const labels = [...OWN_LABELS];
  for (const family of names.families) {
    expect([...families.keys()]).toContain(family);
    labels.push(...(families.get(family) ?? []));
  }
  for (const label of names.labels) expect(labels).toContain(label);
  return labels;
}
