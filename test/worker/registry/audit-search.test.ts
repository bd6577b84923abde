/** How a search of the audit events reads its rows [C-14.3]. */
import { plansOf } from '#workerd/d1.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { pageAuditEvents } from '../../../registry/audit.ts';

type Query = Parameters<typeof pageAuditEvents>[2];

const plansOfPage = (query: Query) =>
  plansOf((database) => pageAuditEvents(database, crypto.randomUUID(), query, { page: 1, limit: 100 }));

const ACTOR = { actor: 'someone' } as const;
const EVENT = { event: 'user.logged_in' } as const;
const RANGE = { from: 1, to: 2 } as const;

describe('a search of the audit events', () => {
  it.each<[string, Query]>([
    ['an actor and an event', { ...ACTOR, ...EVENT }],
    ['an actor, an event and a time', { ...ACTOR, ...EVENT, ...RANGE }],
  ])('reads only rows of that actor and that event for %s, in order', async (_what, query) => {
    const plans = await plansOfPage(query);
    expect(plans.length).toBeGreaterThan(0);
    for (const plan of plans) {
      expect(plan).toMatch(
        /SEARCH audit_events USING .*\(organization_id=\? AND actor=\? AND event=\?|SEARCH audit_events USING .*\(actor=\? AND event=\?|SEARCH audit_events USING .*\(organization_id=\? AND event=\? AND actor=\?/,
      );
      expect(plan).not.toMatch(/TEMP B-TREE FOR ORDER BY/);
    }
  });

  it.each<[string, Query, string]>([
    ['an event', EVENT, 'audit_events_event'],
    ['an actor', ACTOR, 'audit_events_actor'],
    ['a time', RANGE, 'audit_events_organization'],
  ])('reads by an index for %s alone', async (_what, query, index) => {
    for (const plan of await plansOfPage(query)) {
      expect(plan).toContain(index);
      expect(plan).not.toMatch(/TEMP B-TREE FOR ORDER BY/);
    }
  });
});
