/** What the routes of webhooks share: the webhook of a request, and its audit entries [C-12.4]. */
import type { Context } from 'hono';
import type { AuditEventName } from '../../../protocol/audit-names.ts';
import { ceilingsOf } from '../../../protocol/ceilings.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { UrlTaken } from '../../../registry/webhook-urls.ts';
import { findWebhook, type OwnedWebhook } from '../../../registry/webhooks.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict } from '../../http/error-response.ts';
import { requireShare } from '../../http/rate.ts';

export const ORG_ADMIN = { door: 'member', role: 'ORG_ADMIN', isHeaderNeeded: true } as const;
/** For routes that begin with `requirePostRate`. */
export const POSTING_ADMIN: Who = { ...ORG_ADMIN, isRated: true };

export function webhookNotFound(): ApiError {
  return new ApiError('NOT_FOUND', 'The organization has no webhook with this id: list its webhooks');
}

export async function requireWebhook(c: Context<AppContext>, id: string): Promise<OwnedWebhook> {
  const found = await findWebhook(c.env.DB, c.get('tenant').organizationId, id);
  if (!found) throw webhookNotFound();
  return found;
}

export function keyEnded(): ApiError {
  return conflict('The API key was revoked or has expired: create a webhook for another key');
}

/** The error for a URL that another webhook of the key has, or four of the organization. */
export function urlTaken(by: UrlTaken): ApiError {
  return conflict(
    by === 'key'
      ? 'Another webhook of the API key has this URL and is not disabled: change that one, or delete it first'
      : `${LIMIT.webhooksPerUrl} webhooks of the organization have this URL and are not disabled, which is the most: delete one first`,
  );
}

export type WebhookEvent = Extract<AuditEventName, `webhook.${string}`>;

export function entryOf(
  c: Context<AppContext>,
  event: WebhookEvent,
  id: string,
  details: Record<string, unknown>,
) {
  return auditEntry(c, event, { type: 'WEBHOOK', id }, details);
}

/** Counts what an organization may ask the platform to post at once, so that it posts to no stranger's server often. */
export async function requirePostRate(c: Context<AppContext>): Promise<void> {
  const { organizationId, ceilings } = c.get('tenant');
  const what =
    'webhooks created, moved, enabled, tested and recovered, and events sent again, by the organization';
  const most = ceilingsOf(ceilings).webhookTestsPerMinute;
  await requireShare(c, `webhook-tests:${organizationId}`, most, what);
}
