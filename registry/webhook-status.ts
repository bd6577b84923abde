/**
 * The status of a webhook in D1, which its Vhost writes [C-12.4]. A webhook that is disabled is an alert, an audit event
 * and a mail to the organization's admins, which the scheduled task sends.
 */
import { and, eq, lt, lte, ne, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { derivedUuid } from '../durable-objects/secrets/hmac.ts';
import type { WebhookReason, WebhookStatus } from '../protocol/webhook.ts';
import { auditRowIfChanged } from './audit-events.ts';
import type { AlertEntry, AuditEntry } from './entries.ts';
import { alerts, webhooks } from './schema.ts';
import { begunAlert } from './writes.ts';

const ACTOR = { type: 'SYSTEM', id: 'webhooks', name: 'webhooks' } as const;

/** Why, as people read it in alerts and mails. */
export const REASON_TEXTS: Record<WebhookReason, string> = {
  GONE: 'its receiver answered 410 Gone',
  ATTEMPTS_FAILED: 'all attempts to reach its receiver failed',
  KEY_ENDED: 'its API key was revoked or has expired',
};

export interface WebhookStatusChange {
  id: string;
  /** The URL that the status is about: the status of an earlier URL is not written. */
  url: string;
  status: WebhookStatus;
  reason: WebhookReason | null;
  atMs: number;
}

/** Idempotent. Does nothing if the webhook was deleted, or if its status in D1 is newer. */
export async function writeWebhookStatus(
  database: D1Database,
  organizationId: string,
  { id, url, status, reason, atMs }: WebhookStatusChange,
): Promise<void> {
  const db = drizzle(database);
  const isMeant = and(eq(webhooks.id, id), eq(webhooks.url, url), lte(webhooks.statusAtMs, atMs));
  const { description, alertId } = webhooks;
  const row = await db.select({ description, alertId }).from(webhooks).where(isMeant).get();
  if (!row) return;
  const change = { status, statusReason: reason, statusAtMs: atMs };
  if (status !== 'DISABLED') {
    await db.batch([
      db
        .update(webhooks)
        .set({ ...change, alertId: null, mailDue: null })
        .where(isMeant),
      resolvedAlert(db, row.alertId, null, atMs),
    ]);
    return;
  }
  const details = { url: new URL(url).origin, reason };
  const audit: AuditEntry = {
    ...{ organizationId, event: 'webhook.disabled', actor: ACTOR, address: null, outcome: 'FAILURE' },
    ...{ target: { type: 'WEBHOOK', id }, details },
  };
  const alert: AlertEntry = {
    ...{
      id: derivedUuid(`webhook|${id}|${atMs}`),
      organizationId,
      ruleId: null,
      plantId: null,
      deviceId: null,
    },
    ...{ type: 'WEBHOOK', severity: 'CRITICAL', value: null, threshold: null, count: 1 },
    ...{ firstSeenAtMs: atMs, lastSeenAtMs: atMs },
    message: `The webhook ${nameOf(url, row.description)} is disabled: ${REASON_TEXTS[reason ?? 'ATTEMPTS_FAILED']}`,
  };
  const isWritten = sql`EXISTS (SELECT 1 FROM ${webhooks} WHERE ${webhooks.id} = ${id} AND ${webhooks.alertId} = ${alert.id})`;
  await db.batch([
    db
      .update(webhooks)
      .set({ ...change, alertId: alert.id, mailDue: 1 })
      .where(and(isMeant, lt(webhooks.statusAtMs, atMs))),
    auditRowIfChanged(db, audit, atMs),
    // Only of a status that was written: the webhook may have changed meanwhile.
    ...begunAlert(db, alert, isWritten),
  ]);
}

/** Resolves the alert of a webhook, if it has one. `by`: the id of the user; null: the platform. */
export function resolvedAlert(db: DrizzleD1Database, id: string | null, by: string | null, now: number) {
  return db
    .update(alerts)
    .set({ status: 'RESOLVED', resolvedAtMs: now, resolvedBy: by })
    .where(and(eq(alerts.id, id ?? ''), ne(alerts.status, 'RESOLVED')));
}

/** How alerts and mails name a webhook: without the path and the query of its URL, which may be secret. */
export function nameOf(url: string, description: string): string {
  const { origin } = new URL(url);
  return description === '' ? origin : `"${description}" (${origin})`;
}
