/** Members of organizations in D1: their list, their roles, and how they leave [C-1.1], [C-1.2]. */
import { and, asc, eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { Role } from '../protocol/enums.ts';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import { auditRowIfChanged } from './audit-events.ts';
import { countOf, isAmong, readJoinedPage, runBatch } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { endedInvitations } from './invitations.ts';
import { memberships, users } from './schema.ts';

export type MemberRow = { user: typeof users.$inferSelect; role: Role; createdAtMs: number };

/** Ordered by e-mail address. */
export async function listMembers(
  database: D1Database,
  organizationId: string,
  request: PageRequest,
): Promise<FoundPage<MemberRow>> {
  const db = drizzle(database);
  const isMember = eq(memberships.organizationId, organizationId);
  const rows = db
    .select({ user: users, role: memberships.role, createdAtMs: memberships.createdAtMs })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(isMember)
    .orderBy(asc(users.email));
  return await readJoinedPage(request, rows, countOf(db, memberships, isMember));
}

/** Those of these users who are members. */
export async function membersAmong(
  database: D1Database,
  organizationId: string,
  userIds: readonly string[],
): Promise<Set<string>> {
  if (userIds.length === 0) return new Set();
  const rows = await drizzle(database)
    .select({ userId: memberships.userId })
    .from(memberships)
    .where(and(eq(memberships.organizationId, organizationId), isAmong(memberships.userId, userIds)));
  return new Set(rows.map(({ userId }) => userId));
}

export async function findMember(
  database: D1Database,
  organizationId: string,
  userId: string,
): Promise<MemberRow | undefined> {
  return await drizzle(database)
    .select({ user: users, role: memberships.role, createdAtMs: memberships.createdAtMs })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(and(eq(memberships.organizationId, organizationId), eq(memberships.userId, userId)))
    .get();
}

/**
 * Condition: the member is not the last ORG_ADMIN. It is part of the statement that changes the row, because
 * two ORG_ADMINs could leave at the same time.
 */
function isAnotherAdmin(organizationId: string, userId: string) {
  return sql`(${memberships.role} <> 'ORG_ADMIN' OR EXISTS (
    SELECT 1 FROM memberships AS other WHERE other.organization_id = ${organizationId}
    AND other.user_id <> ${userId} AND other.role = 'ORG_ADMIN'))`;
}

/** Returns false if no ORG_ADMIN would be left, or if the member's role has changed in the meantime. */
export async function changeRole(
  database: D1Database,
  organizationId: string,
  userId: string,
  { from, to }: { from: Role; to: Role },
  audit: AuditEntry,
  now: number,
): Promise<boolean> {
  const db = drizzle(database);
  const [changed] = await runBatch(db, [
    db
      .update(memberships)
      .set({ role: to })
      .where(
        and(
          eq(memberships.organizationId, organizationId),
          eq(memberships.userId, userId),
          eq(memberships.role, from),
          to === 'ORG_ADMIN' ? undefined : isAnotherAdmin(organizationId, userId),
        ),
      )
      .returning({ userId: memberships.userId }),
    auditRowIfChanged(db, audit, now),
    endedInvitations(db, userId),
  ]);
  return (changed as unknown[]).length > 0;
}

/** The ids of the members of an organization. */
export async function memberIds(database: D1Database, organizationId: string): Promise<string[]> {
  const rows = await drizzle(database)
    .select({ userId: memberships.userId })
    .from(memberships)
    .where(eq(memberships.organizationId, organizationId));
  return rows.map(({ userId }) => userId);
}

/** Returns false in the same cases as `changeRole`. */
export async function removeMember(
  database: D1Database,
  organizationId: string,
  userId: string,
  role: Role,
  audit: AuditEntry,
  now: number,
): Promise<boolean> {
  const db = drizzle(database);
  const [removed] = await runBatch(db, [
    db
      .delete(memberships)
      .where(
        and(
          eq(memberships.organizationId, organizationId),
          eq(memberships.userId, userId),
          eq(memberships.role, role),
          isAnotherAdmin(organizationId, userId),
        ),
      )
      .returning({ userId: memberships.userId }),
    auditRowIfChanged(db, audit, now),
    endedInvitations(db, userId),
  ]);
  return (removed as unknown[]).length > 0;
}
