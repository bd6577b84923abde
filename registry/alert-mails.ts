/**
 * The alerts that a mail is due about [C-9]. Triggers of D1 note them when an alert begins or ends; the scheduled task
 * reads them here.
 */
import { and, asc, eq, isNotNull, isNull, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { AlertSeverity } from '../protocol/alert.ts';
import { isAmong, runBatch } from './d1.ts';
import { areQueued, type MailRow, queuedTogether } from './mails.ts';
import { alertRules, alerts, memberships, organizations, plants, users } from './schema.ts';

export interface DueAlert {
  id: string;
  organizationId: string;
  organization: string;
  plant: string | null;
  severity: AlertSeverity;
  message: string;
  firstSeenAtMs: number;
  resolvedAtMs: number | null;
  /** 1: it begins; 2: it ends. */
  mailDue: number;
  mailTo: string[];
}

/** Up to `most` alerts that a mail is due about, oldest first. */
export async function dueAlerts(database: D1Database, most: number): Promise<DueAlert[]> {
  const rows = await drizzle(database)
    .select({
      id: alerts.id,
      organizationId: alerts.organizationId,
      organization: organizations.name,
      plant: plants.name,
      severity: alerts.severity,
      message: alerts.message,
      firstSeenAtMs: alerts.firstSeenAtMs,
      resolvedAtMs: alerts.resolvedAtMs,
      mailDue: alerts.mailDue,
      mailTo: alertRules.mailTo,
    })
    .from(alerts)
    .innerJoin(organizations, eq(organizations.id, alerts.organizationId))
    .leftJoin(alertRules, eq(alertRules.id, alerts.ruleId))
    .leftJoin(plants, eq(plants.id, alerts.plantId))
    .where(isNotNull(alerts.mailDue))
    .orderBy(asc(alerts.firstSeenAtMs))
    .limit(most);
  return rows.map((row) => ({ ...row, mailDue: row.mailDue ?? 0, mailTo: row.mailTo ?? [] }));
}

/** The addresses of these users, as far as they are members now, have proved the address, and are not suspended. */
export async function addressesOf(
  database: D1Database,
  organizationId: string,
  userIds: readonly string[],
): Promise<Map<string, string>> {
  const rows = await drizzle(database)
    .select({ id: users.id, email: users.email })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .innerJoin(organizations, eq(organizations.id, memberships.organizationId))
    .where(
      and(
        eq(memberships.organizationId, organizationId),
        isAmong(memberships.userId, userIds),
        isNotNull(users.provedAtMs),
        isNull(users.deletedAtMs),
        isNull(organizations.suspendedAtMs),
      ),
    );
  return new Map(rows.map(({ id, email }) => [id, email]));
}

/**
 * Queues the mails, and notes in the same transaction that they are no longer due: only what they report. Without room for
 * them they stay due.
 */
export async function queueAlertMails(
  database: D1Database,
  reported: readonly DueAlert[],
  mails: readonly MailRow[],
): Promise<void> {
  const db = drizzle(database);
  const marks = JSON.stringify(reported.map(({ id, mailDue }) => `${id}:${mailDue}`));
  await runBatch(db, [
    ...queuedTogether(db, mails),
    db
      .update(alerts)
      .set({ mailDue: null })
      .where(
        and(
          isNotNull(alerts.mailDue),
          areQueued(mails),
          sql`${alerts.id} || ':' || ${alerts.mailDue} IN (SELECT value FROM json_each(${marks}))`,
        ),
      ),
  ]);
}
