/** Audit rows: reading them [C-8.4], and writing those of actions that change nothing else in D1. */
import { and, count, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRow, countedAuditRow } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { auditEvents, organizations } from '../../migrations/schema.ts';
import type { AuditEvent, AuditEventName } from '../../protocol/audit.ts';
import { formatInstant } from '../../protocol/ids.ts';
import { organizationSettings } from '../../protocol/organization.ts';
import type { FoundPage, PageRequest } from '../../protocol/page.ts';
import { isAmong, readPage, runBatch } from './d1.ts';

type AuditEventRow = typeof auditEvents.$inferSelect;

const DAY_MS = 86_400_000;

export async function writeAudit(database: D1Database, entry: AuditEntry, now: number): Promise<void> {
  await auditRow(drizzle(database), entry, now);
}

/** Writes each entry, or counts it in the row of the same event, actor, target and minute [C-14.3]. */
export async function writeFolded(
  database: D1Database,
  entries: readonly AuditEntry[],
  now: number,
): Promise<void> {
  const db = drizzle(database);
  const minute = Math.floor(now / 60_000);
  const rows = entries.map((entry) => {
    const { organizationId, event, actor, target, outcome } = entry;
    const cause = JSON.stringify([organizationId, event, actor.id, target?.id ?? null, outcome, minute]);
    return countedAuditRow(db, entry, now, cause);
  });
  await runBatch(db, rows);
}

export interface AuditQuery {
  event?: AuditEventName | undefined;
  /** The id of who did it. */
  actor?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
  /** The cursor of an answer: only rows that follow it. */
  before?: AuditCursor | undefined;
}

/** The last row of a page. */
export interface AuditCursor {
  atMs: number;
  id: string;
}

/** A count ends here, because it reads every row. */
export const AUDIT_ROWS_COUNTED = 10_000;

/** Newest first; only rows that fit the query. `total`: at most one more than AUDIT_ROWS_COUNTED. */
export async function pageAuditEvents(
  database: D1Database,
  organizationId: string,
  { event, actor, from, to, before }: AuditQuery,
  request: PageRequest,
): Promise<FoundPage<AuditEventRow>> {
  const db = drizzle(database);
  const isMeant = and(
    eq(auditEvents.organizationId, organizationId),
    event === undefined ? undefined : eq(auditEvents.event, event),
    actor === undefined ? undefined : eq(auditEvents.actor, actor),
    from === undefined ? undefined : gte(auditEvents.createdAtMs, from),
    to === undefined ? undefined : lt(auditEvents.createdAtMs, to),
  );
  const isAfter =
    before === undefined
      ? undefined
      : sql`(${auditEvents.createdAtMs}, ${auditEvents.id}) < (${before.atMs}, ${before.id})`;
  const rows = db
    .select()
    .from(auditEvents)
    .where(and(isMeant, isAfter))
    .orderBy(desc(auditEvents.createdAtMs), desc(auditEvents.id));
  const some = db
    .select({ id: auditEvents.id })
    .from(auditEvents)
    .where(isMeant)
    .limit(AUDIT_ROWS_COUNTED + 1)
    .as('some');
  return await readPage(db, request, rows, db.select({ total: count() }).from(some));
}

export function auditEventOf(row: AuditEventRow): AuditEvent {
  return {
    id: row.id,
    event: row.event,
    actor: {
      type: row.actorType as AuditEvent['actor']['type'],
      id: row.actor,
      ...(row.actorName === null ? {} : { name: row.actorName }),
    },
    target: row.target === null ? null : { type: row.targetType, id: row.target },
    address: row.address,
    // Rows may have the outcome in lower case [C-8.4].
    outcome: row.outcome.toUpperCase() === 'SUCCESS' ? 'SUCCESS' : 'FAILURE',
    details: row.details,
    count: row.count,
    createdAt: formatInstant(row.createdAtMs),
  };
}

/** Start of the retention period of the joined organization, in epoch milliseconds. */
export function keptFromMs(now: number): SQL {
  const days = sql`coalesce(json_extract(${organizations.settings}, '$.auditRetentionDays'),
    ${organizationSettings.parse({}).auditRetentionDays})`;
  return sql`${now} - ${days} * ${DAY_MS}`;
}

/** Deletes up to `most` rows that are older than their organization's retention period. */
export async function dropOldAuditEvents(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = await db
    .select({ id: auditEvents.id })
    .from(organizations)
    .innerJoin(
      auditEvents,
      and(eq(auditEvents.organizationId, organizations.id), lt(auditEvents.createdAtMs, keptFromMs(now))),
    )
    .limit(most);
  if (over.length === 0) return;
  await db.delete(auditEvents).where(
    isAmong(
      auditEvents.id,
      over.map(({ id }) => id),
    ),
  );
}
