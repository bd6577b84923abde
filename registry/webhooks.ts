/** Webhooks in D1 [C-12.4]. Their keys' Vhosts have a copy of what they need, and write the status. */
import { and, count, desc, eq, isNotNull, isNull, lt, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { formatInstant } from '../protocol/ids.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import type { WebhookChange, WebhookRecord, WebhookRequest, WebhookStatus } from '../protocol/webhook.ts';
import { auditRow, auditRowIfChanged } from './audit-events.ts';
import { commitChange, commitChangeOf, type RegistryChange } from './changes.ts';
import { areFewer, isAmong, readJoinedPage, runBatch, withInstants } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { areQueued, type MailRow, queuedTogether } from './mails.ts';
import { apiKeys, memberships, organizations, users, webhooks } from './schema.ts';
import { resolvedAlert } from './webhook-status.ts';
import { urlKeyOf } from './webhook-url.ts';
import { isFree, takerOf, type UrlTaken } from './webhook-urls.ts';

type WebhookRow = typeof webhooks.$inferSelect;

/** A webhook, and when its key was revoked or expires. */
export interface OwnedWebhook {
  row: WebhookRow;
  revokedAtMs: number | null;
  expiresAtMs: number | null;
}

const OF_KEY = { revokedAtMs: apiKeys.revokedAtMs, expiresAtMs: apiKeys.expiresAtMs };

/** Newest first. */
export async function pageWebhooks(
  database: D1Database,
  organizationId: string,
  keyId: string | undefined,
  request: PageRequest,
): Promise<FoundPage<OwnedWebhook>> {
  const db = drizzle(database);
  const isMeant = and(
    eq(webhooks.organizationId, organizationId),
    keyId === undefined ? undefined : eq(webhooks.keyId, keyId),
  );
  const rows = db
    .select({ row: webhooks, ...OF_KEY })
    .from(webhooks)
    .innerJoin(apiKeys, eq(apiKeys.id, webhooks.keyId))
    .where(isMeant)
    .orderBy(desc(webhooks.createdAtMs), desc(webhooks.id));
  return await readJoinedPage(request, rows, db.select({ total: count() }).from(webhooks).where(isMeant));
}

export async function findWebhook(
  database: D1Database,
  organizationId: string,
  id: string,
): Promise<OwnedWebhook | undefined> {
  return await drizzle(database)
    .select({ row: webhooks, ...OF_KEY })
    .from(webhooks)
    .innerJoin(apiKeys, eq(apiKeys.id, webhooks.keyId))
    .where(and(eq(webhooks.id, id), eq(webhooks.organizationId, organizationId)))
    .get();
}

/** `full`: the key has reached its limit of webhooks. `seal`: seals the secret for an id. */
export async function createWebhook(
  database: D1Database,
  organizationId: string,
  request: WebhookRequest,
  seal: (id: string) => string,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<{ row: WebhookRow; change: RegistryChange } | 'full' | UrlTaken> {
  const id = crypto.randomUUID();
  const { keyId, url, types, siteIds, description } = request;
  const [holder, urlKey] = [{ id, organizationId, keyId }, urlKeyOf(url)];
  const isOfKey = eq(webhooks.keyId, keyId);
  const hasRoom = sql`${areFewer(webhooks, isOfKey, LIMIT.webhooksPerKey)} AND ${isFree(holder, urlKey, now)}`;
  const values = {
    ...{ id, organizationId, keyId, url, urlKey, types, siteIds, description, secretSealed: seal(id) },
    ...{ status: 'PENDING' as const, statusAtMs: now, createdAtMs: now, updatedAtMs: now },
  };
  const { results, ...change } = await commitChange(
    database,
    organizationId,
    { keys: [keyId] },
    now,
    (db) => [insertIf(db, webhooks, values, hasRoom).returning(), auditRowIfChanged(db, audit(id), now)],
  );
  const [row] = results[0] as WebhookRow[];
  return row ? { row, change } : ((await takerOf(database, holder, url, now)) ?? 'full');
}

/** A webhook with another URL is PENDING until its receiver has answered. `changed`: another request has changed it meanwhile. */
export async function changeWebhook(
  database: D1Database,
  before: WebhookRow,
  columns: WebhookChange & Partial<Pick<WebhookRow, 'secretSealed' | 'previousSealed' | 'previousUntilMs'>>,
  audit: AuditEntry,
  now: number,
): Promise<{ row: WebhookRow; change: RegistryChange } | 'gone' | 'changed' | UrlTaken> {
  const { id, organizationId, keyId, alertId, secretSealed } = before;
  const url = columns.url ?? before.url;
  const [isMoved, urlKey] = [url !== before.url, urlKeyOf(url)];
  const status = {
    status: 'PENDING',
    statusReason: null,
    statusAtMs: now,
    alertId: null,
    mailDue: null,
  } as const;
  const { results, ...change } = await commitChange(
    database,
    organizationId,
    { keys: [keyId] },
    now,
    (db) => [
      db
        .update(webhooks)
        .set({ ...columns, ...(isMoved ? { ...status, urlKey } : {}), updatedAtMs: now })
        // Of two rotations at once the second one fails, because its caller could not know the previous secret.
        .where(
          and(
            eq(webhooks.id, id),
            eq(webhooks.secretSealed, secretSealed),
            // Of two moves at once the second one fails, or the URL and its key would be of different ones.
            ...(columns.url === undefined
              ? []
              : [eq(webhooks.url, before.url), isMoved ? isFree(before, urlKey, now) : undefined]),
          ),
        )
        .returning(),
      auditRowIfChanged(db, audit, now),
      ...(isMoved ? [resolvedAlert(db, alertId, audit.actor.id, now)] : []),
    ],
  );
  const [row] = results[0] as WebhookRow[];
  if (row) return { row, change };
  const taker = isMoved ? await takerOf(database, before, url, now) : undefined;
  if (taker) return taker;
  return (await findWebhook(database, organizationId, id)) ? 'changed' : 'gone';
}

export async function deleteWebhook(
  database: D1Database,
  { id, organizationId, keyId, alertId }: WebhookRow,
  audit: AuditEntry,
  now: number,
): Promise<RegistryChange | 'gone'> {
  return await commitChangeOf(database, organizationId, { keys: [keyId] }, audit, now, (db) => [
    resolvedAlert(db, alertId, audit.actor.id, now),
    db.delete(webhooks).where(eq(webhooks.id, id)).returning({ id: webhooks.id }),
  ]);
}

/** Notes that a webhook was enabled again, and resolves its alert. */
export async function markEnabled(
  database: D1Database,
  { id, alertId }: WebhookRow,
  { status, statusAtMs }: { status: WebhookStatus; statusAtMs: number },
  audit: AuditEntry,
  now: number,
): Promise<void> {
  const db = drizzle(database);
  const columns = { status, statusReason: null, statusAtMs, alertId: null, mailDue: null };
  await runBatch(db, [
    db
      .update(webhooks)
      .set(columns)
      .where(and(eq(webhooks.id, id), lt(webhooks.statusAtMs, statusAtMs))),
    auditRow(db, audit, now),
    resolvedAlert(db, alertId, audit.actor.id, now),
  ]);
}

/** The sealed secrets of these keys' webhooks. */
export async function sealedWebhooks(database: D1Database, keyIds: readonly string[]) {
  const { id, organizationId, keyId, secretSealed, previousSealed, previousUntilMs } = webhooks;
  return await drizzle(database)
    .select({ id, organizationId, keyId, secretSealed, previousSealed, previousUntilMs })
    .from(webhooks)
    .where(isAmong(webhooks.keyId, keyIds));
}

/** Replaces the sealed secrets, unless another request has changed them meanwhile. */
export async function replaceSealed(
  database: D1Database,
  before: Pick<WebhookRow, 'id' | 'organizationId' | 'keyId' | 'secretSealed'>,
  sealed: Pick<WebhookRow, 'secretSealed' | 'previousSealed' | 'previousUntilMs'>,
  now: number,
): Promise<RegistryChange> {
  const { id, organizationId, keyId, secretSealed } = before;
  const isSame = and(eq(webhooks.id, id), eq(webhooks.secretSealed, secretSealed));
  return await commitChange(database, organizationId, { keys: [keyId] }, now, (db) => [
    db.update(webhooks).set(sealed).where(isSame),
  ]);
}

/** Webhooks of which the admins must get a mail. */
export async function dueWebhookMails(database: D1Database, most: number) {
  const db = drizzle(database);
  return await db
    .select({ row: webhooks, organization: organizations.name })
    .from(webhooks)
    .innerJoin(organizations, eq(organizations.id, webhooks.organizationId))
    .where(isNotNull(webhooks.mailDue))
    .orderBy(webhooks.statusAtMs)
    .limit(most);
}

/** The ORG_ADMINs of an organization who have proved their address; none of a suspended organization. */
export async function adminsOf(
  database: D1Database,
  organizationId: string,
): Promise<{ id: string; email: string }[]> {
  return await drizzle(database)
    .select({ id: users.id, email: users.email })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .innerJoin(organizations, eq(organizations.id, memberships.organizationId))
    .where(
      and(
        eq(memberships.organizationId, organizationId),
        eq(memberships.role, 'ORG_ADMIN'),
        isNotNull(users.provedAtMs),
        isNull(users.deletedAtMs),
        isNull(organizations.suspendedAtMs),
      ),
    );
}

/** Queues the mails about a webhook, and notes in the same transaction that none is due, if the queue has room for them. */
export async function queueWebhookMails(
  database: D1Database,
  { id, statusAtMs }: WebhookRow,
  mails: readonly MailRow[],
): Promise<void> {
  const db = drizzle(database);
  const isReported = and(eq(webhooks.id, id), eq(webhooks.statusAtMs, statusAtMs));
  // Another round may have queued them, and the webhook may be enabled again.
  const isDue = sql`EXISTS (SELECT 1 FROM ${webhooks} WHERE ${webhooks.id} = ${id}
    AND ${webhooks.statusAtMs} = ${statusAtMs} AND ${webhooks.mailDue} IS NOT NULL)`;
  await runBatch(db, [
    ...queuedTogether(db, mails, isDue),
    db
      .update(webhooks)
      .set({ mailDue: null })
      .where(and(isReported, areQueued(mails))),
  ]);
}

export function webhookRecordOf({ row, revokedAtMs, expiresAtMs }: OwnedWebhook, now: number): WebhookRecord {
  const { id, keyId, url, types, siteIds, description, previousUntilMs, createdAtMs, updatedAtMs } = row;
  const endedAtMs = revokedAtMs ?? (expiresAtMs !== null && expiresAtMs <= now ? expiresAtMs : null);
  const isPreviousValid = previousUntilMs !== null && previousUntilMs > now;
  return {
    ...{ id, keyId, url, types, siteIds, description },
    status: endedAtMs === null ? row.status : 'DISABLED',
    statusReason: endedAtMs === null ? row.statusReason : 'KEY_ENDED',
    statusAt: formatInstant(endedAtMs ?? row.statusAtMs),
    previousSecretUntil: isPreviousValid ? formatInstant(previousUntilMs) : null,
    ...withInstants({ createdAtMs, updatedAtMs }),
  };
}
