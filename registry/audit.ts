/** Audit rows: reads them [C-8.4], writes those of actions that change nothing else in D1, and deletes old ones. */
import { and, asc, eq, gt, gte, isNull, lt, type SQL, type SQLWrapper, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { AuditEvent } from '../protocol/audit.ts';
import type { AuditEventName } from '../protocol/audit-names.ts';
import { formatInstant } from '../protocol/ids.ts';
import { LIMIT } from '../protocol/limits.ts';
import { organizationSettings } from '../protocol/organization.ts';
import type { Cursor, FoundPage, PageRequest } from '../protocol/page.ts';
import { auditRow } from './audit-events.ts';
import { boundedCountOf, isAfter, type ListOrder, orderBy, readJoinedPage, runBatch } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { auditEvents, organizations, users } from './schema.ts';

type AuditEventRow = typeof auditEvents.$inferSelect;

const DAY_MS = 86_400_000;

export async function writeAudit(database: D1Database, entry: AuditEntry, now: number): Promise<void> {
  await auditRow(drizzle(database), entry, now);
}

export async function writeAudits(
  database: D1Database,
  entries: readonly AuditEntry[],
  now: number,
): Promise<void> {
  const db = drizzle(database);
  await runBatch(
    db,
    entries.map((entry) => auditRow(db, entry, now)),
  );
}

export interface AuditQuery {
  event?: AuditEventName | undefined;
  /** The id of who did it. */
  actor?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

type FoundAuditEvent = { row: AuditEventRow; actorEmail: string | null };

const ORDER: ListOrder = { column: auditEvents.createdAtMs, id: auditEvents.id, direction: 'desc' };

/** Newest first; only rows that fit the query. Null: those of no organization. */
export async function pageAuditEvents(
  database: D1Database,
  organizationId: string | null,
  { event, actor, from, to }: AuditQuery,
  request: PageRequest,
): Promise<FoundPage<FoundAuditEvent>> {
  const db = drizzle(database);
  const filters = [
    event === undefined ? undefined : eq(auditEvents.event, event),
    actor === undefined ? undefined : eq(auditEvents.actor, actor),
    from === undefined ? undefined : gte(auditEvents.createdAtMs, from),
    to === undefined ? undefined : lt(auditEvents.createdAtMs, to),
  ].filter((filter) => filter !== undefined);
  // If the actor is given, `+` prevents SQLite from using the index of the organization, which may have
  // many other rows, so it uses the index of the actor.
  const isOwn =
    actor !== undefined
      ? sql`+${auditEvents.organizationId} = ${organizationId}`
      : isOfOrganization(organizationId);
  const isMeant = and(isOwn, ...filters);
  const rows = db
    .select({ row: auditEvents, actorEmail: users.email })
    .from(auditEvents)
    .leftJoin(
      users,
      and(eq(users.id, auditEvents.actor), eq(auditEvents.actorType, 'USER'), isNull(users.deletedAtMs)),
    )
    .where(and(isMeant, isAfter(ORDER, request.before)))
    .orderBy(...orderBy(ORDER));
  const counted =
    filters.length > 0
      ? boundedCountOf(db, auditEvents, isMeant)
      : db
          .select({ total: organizations.auditCount })
          .from(organizations)
          .where(eq(organizations.id, organizationId ?? ''));
  return await readJoinedPage(request, rows, counted);
}

function isOfOrganization(id: string | null): SQL {
  return id === null ? isNull(auditEvents.organizationId) : eq(auditEvents.organizationId, id);
}

export function auditCursorOf({ row }: FoundAuditEvent): Cursor {
  return { value: row.createdAtMs, id: row.id };
}

export function auditEventOf({ row, actorEmail }: FoundAuditEvent): AuditEvent {
  const name = row.actorType === 'USER' ? actorEmail : row.actorName;
  return {
    id: row.id,
    event: row.event,
    actor: {
      type: row.actorType as AuditEvent['actor']['type'],
      id: row.actor,
      ...(name === null ? {} : { name }),
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

/** Maximum number of rows that one statement deletes. D1 can handle other requests between two statements. */
const ROWS_PER_STATEMENT = 5_000;
/**
 * Maximum number of statements in a round, which runs every minute; enough to delete more rows than all
 * organizations can write in a minute.
 */
const STATEMENTS_PER_ROUND = 40;

/**
 * Deletes rows that are older than their organization's retention period (rows of no organization: than
 * LIMIT.auditRetentionDays), and the oldest rows of organizations that have more than LIMIT.auditEvents [C-14.3].
 */
export async function dropOldAuditEvents(
  database: D1Database,
  now: number,
  { perStatement = ROWS_PER_STATEMENT, kept = LIMIT.auditEvents } = {},
): Promise<void> {
  const db = drizzle(database);
  const organization = eq(organizations.id, auditEvents.organizationId);
  const expired = db
    .select({ id: auditEvents.id })
    .from(organizations)
    .innerJoin(auditEvents, and(organization, lt(auditEvents.createdAtMs, keptFromMs(now))))
    .limit(perStatement);
  const ownerless = db
    .select({ id: auditEvents.id })
    .from(auditEvents)
    .where(
      and(
        isNull(auditEvents.organizationId),
        lt(auditEvents.createdAtMs, now - LIMIT.auditRetentionDays * DAY_MS),
      ),
    )
    .limit(perStatement);
  let statements = STATEMENTS_PER_ROUND;
  // `changes` also includes the rows that triggers change, so it may be higher than the number of deleted rows.
  const dropAll = async (of: SQLWrapper) => {
    for (let dropped = perStatement; dropped >= perStatement && statements > 0; statements--)
      dropped = (await db.delete(auditEvents).where(sql`${auditEvents.id} IN ${of}`)).meta.changes;
  };
  await dropAll(expired);
  await dropAll(ownerless);
  const full = await db
    .select({ id: organizations.id, total: organizations.auditCount })
    .from(organizations)
    .where(gt(organizations.auditCount, kept));
  for (const { id, total } of full) {
    for (let over = total - kept; over > 0 && statements > 0; over -= perStatement, statements--) {
      const oldest = db
        .select({ id: auditEvents.id })
        .from(auditEvents)
        .where(eq(auditEvents.organizationId, id))
        .orderBy(asc(auditEvents.createdAtMs))
        .limit(Math.min(over, perStatement));
      await db.delete(auditEvents).where(sql`${auditEvents.id} IN ${oldest}`);
    }
  }
}
