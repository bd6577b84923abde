/** Which webhook has a URL: one of a key, and four of an organization, unless they are disabled [C-15.3]. */
import { and, eq, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { LIMIT } from '../protocol/limits.ts';
import { webhooks } from './schema.ts';
import { urlKeyOf } from './webhook-url.ts';

/** Who has the URL of a webhook: another webhook of its key, or as many of its organization as may have it [C-15.3]. */
export type UrlTaken = 'key' | 'organization';

type WebhookRow = typeof webhooks.$inferSelect;
type Holder = Pick<WebhookRow, 'id' | 'organizationId' | 'keyId'>;

/** The webhooks, besides this one, that are not disabled, whose key has not ended, and that have this URL. */
function holdersOf({ id, organizationId }: Holder, urlKey: string, now: number): SQL {
  return sql`FROM webhooks AS other JOIN api_keys AS owner ON owner.id = other.key_id
    WHERE other.organization_id = ${organizationId} AND other.url_key = ${urlKey} AND other.id <> ${id}
    AND other.status <> 'DISABLED' AND owner.revoked_at_ms IS NULL
    AND (owner.expires_at_ms IS NULL OR owner.expires_at_ms > ${now})`;
}

/** Whether the webhook may have the URL. A condition of the statement that takes it, so that two cannot. */
export function isFree(holder: Holder, urlKey: string, now: number): SQL {
  const holders = holdersOf(holder, urlKey, now);
  return sql`NOT EXISTS (SELECT 1 ${holders} AND other.key_id = ${holder.keyId})
    AND (SELECT count(*) ${holders}) < ${LIMIT.webhooksPerUrl}`;
}

/** Who has the URL; undefined: it is free. */
export async function takerOf(
  database: D1Database,
  holder: Holder,
  url: string,
  now: number,
): Promise<UrlTaken | undefined> {
  const holders = holdersOf(holder, urlKeyOf(url), now);
  const [counted] = await drizzle(database).all<{ ofKey: number; total: number }>(
    sql`SELECT count(*) AS total, total(other.key_id = ${holder.keyId}) AS ofKey ${holders}`,
  );
  const { ofKey = 0, total = 0 } = counted ?? {};
  if (ofKey > 0) return 'key';
  return total >= LIMIT.webhooksPerUrl ? 'organization' : undefined;
}

/**
 * Takes the URL of a webhook that is disabled, before its Vhost posts to it again. Its time stays: only the Vhost changes the
 * status, and it must not take this for a newer one.
 */
export async function reserveUrl(
  database: D1Database,
  row: WebhookRow,
  now: number,
): Promise<'free' | UrlTaken> {
  const { id, url } = row;
  const isDisabled = and(eq(webhooks.id, id), eq(webhooks.status, 'DISABLED'));
  await drizzle(database)
    .update(webhooks)
    .set({ status: 'PENDING', statusReason: null, urlKey: urlKeyOf(url) })
    .where(and(isDisabled, isFree(row, urlKeyOf(url), now)));
  const left = await drizzle(database).select({ id: webhooks.id }).from(webhooks).where(isDisabled).get();
  return left ? ((await takerOf(database, row, url, now)) ?? 'key') : 'free';
}

/** Puts back what `reserveUrl` has changed, because the Vhost did not enable the webhook. */
export async function releaseUrl(database: D1Database, row: WebhookRow): Promise<void> {
  const { id, status, statusReason, statusAtMs } = row;
  await drizzle(database)
    .update(webhooks)
    .set({ status, statusReason })
    .where(and(eq(webhooks.id, id), eq(webhooks.status, 'PENDING'), eq(webhooks.statusAtMs, statusAtMs)));
}
