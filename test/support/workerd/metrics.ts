/** The current metrics of the edge, read from their object. */
import { env } from 'cloudflare:workers';
import { exposeMetrics, metricsOf } from '../../../durable-objects/metrics/report.ts';
import { type Family, parseExposition } from '../exposition.ts';

export function metricsStub() {
  return metricsOf(env);
}

export async function scrape(): Promise<Map<string, Family>> {
  return parseExposition(await exposeMetrics(env, 'v1'));
}

/** The sum of the samples of a family (named without its prefix) that have these labels. */
export async function figure(name: string, labels: Record<string, string> = {}): Promise<number | undefined> {
  const samples = (await scrape()).get(`sitewire_edge_${name}`)?.samples ?? [];
  const own = samples.filter((sample) =>
    Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );
  return own.length === 0 ? undefined : own.reduce((sum, { value }) => sum + value, 0);
}
