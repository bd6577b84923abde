/** The lists of open alerts that pages of the console read again and again [C-9]. */
import { plansOf } from '#workerd/d1.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import type { AlertFilter } from '../../../registry/alerts.ts';
import { pageAlerts } from '../../../registry/alerts.ts';

const NOW = Date.now();
const HOUR = 3_600_000;

const plansOfList = (filter: AlertFilter) => {
  const of = { organizationId: crypto.randomUUID(), allowedPlantIds: null };
  return plansOf((database) => pageAlerts(database, of, filter, { page: 1, limit: 100 }, NOW));
};

describe('a list of open alerts', () => {
  it.each<[string, AlertFilter]>([
    ['with a status', { status: 'ACTIVE' }],
    ['of a time to come', { openAtMs: NOW + HOUR }],
  ])('%s reads no resolved alert', async (_name, filter) => {
    const plans = await plansOfList(filter);
    expect(plans.length).toBeGreaterThan(0);
    for (const plan of plans) expect(plan).toContain('alerts_open');
  });

  it.each<[string, AlertFilter]>([
    ['of an earlier time', { openAtMs: NOW - HOUR }],
    ['of resolved ones', { status: 'RESOLVED' }],
    ['of all', {}],
  ])('%s reads them, too', async (_name, filter) => {
    for (const plan of await plansOfList(filter)) expect(plan).not.toContain('alerts_open');
  });
});
