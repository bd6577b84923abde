/** The lists of open alerts that pages of the console read again and again [C-9]. */
import { env } from 'cloudflare:workers';
import { describe, expect, it } from '#workerd/worker-test.ts';
import type { AlertFilter } from '../../../registry/alerts.ts';
import { pageAlerts } from '../../../registry/alerts.ts';

const NOW = Date.now();
const HOUR = 3_600_000;

/** How the database reads the rows of a list: one line for each statement. */
async function plansOf(filter: AlertFilter): Promise<string[]> {
  const statements: string[] = [];
  const database = new Proxy(env.DB, {
    get: (target, name) => {
      if (name === 'prepare')
        return (text: string) => {
          statements.push(text);
          return target.prepare(text);
        };
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  const of = { organizationId: crypto.randomUUID(), allowedPlantIds: null };
  await pageAlerts(database, of, filter, { page: 1, limit: 100 }, NOW);
  const plans = statements.map(async (text) => {
    const values = [...text.matchAll(/\?/g)].map(() => null);
    const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${text}`)
      .bind(...values)
      .all<{ detail: string }>();
    return results.map(({ detail }) => detail).join('; ');
  });
  return await Promise.all(plans);
}

describe('a list of open alerts', () => {
  it.each<[string, AlertFilter]>([
    ['with a status', { status: 'ACTIVE' }],
    ['of a time to come', { openAtMs: NOW + HOUR }],
  ])('%s reads no resolved alert', async (_name, filter) => {
    const plans = await plansOf(filter);
    expect(plans.length).toBeGreaterThan(0);
    for (const plan of plans) expect(plan).toContain('alerts_open');
  });

  it.each<[string, AlertFilter]>([
    ['of an earlier time', { openAtMs: NOW - HOUR }],
    ['of resolved ones', { status: 'RESOLVED' }],
    ['of all', {}],
  ])('%s reads them, too', async (_name, filter) => {
    for (const plan of await plansOf(filter)) expect(plan).not.toContain('alerts_open');
  });
});
