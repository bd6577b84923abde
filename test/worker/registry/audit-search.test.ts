/** How a search of the audit events reads its rows [C-14.3]. */
import { env } from 'cloudflare:workers';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { pageAuditEvents } from '../../../registry/audit.ts';

type Query = Parameters<typeof pageAuditEvents>[2];

/** How the database reads the rows of a page: one text for each statement. */
async function plansOf(query: Query): Promise<string[]> {
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
  await pageAuditEvents(database, crypto.randomUUID(), query, { page: 1, limit: 100 });
  const plans = statements.map(async (text) => {
    const values = [...text.matchAll(/\?/g)].map(() => null);
    const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${text}`)
      .bind(...values)
      .all<{ detail: string }>();
    return results.map(({ detail }) => detail).join('; ');
  });
  return await Promise.all(plans);
}

const ACTOR = { actor: 'someone' } as const;
const EVENT = { event: 'user.logged_in' } as const;
const RANGE = { from: 1, to: 2 } as const;

describe('a search of the audit events', () => {
  it.each<[string, Query]>([
    ['an actor and an event', { ...ACTOR, ...EVENT }],
    ['an actor, an event and a time', { ...ACTOR, ...EVENT, ...RANGE }],
  ])('reads only rows of that actor and that event for %s, in order', async (_what, query) => {
    const plans = await plansOf(query);
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
    for (const plan of await plansOf(query)) {
      expect(plan).toContain(index);
      expect(plan).not.toMatch(/TEMP B-TREE FOR ORDER BY/);
    }
  });
});
