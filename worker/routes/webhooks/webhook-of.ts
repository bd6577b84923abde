/** What the routes of webhooks share: the webhook of a request, and its audit entries [C-12.4]. */
import type { Context } from 'hono';
import type { AuditEventName } from '../../../protocol/audit-names.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict } from '../../http/error-response.ts';
import { requireShare } from '../../http/rate.ts';
import { findWebhook, type OwnedWebhook } from '../../registry/webhooks.ts';

export const ORG_ADMIN: Who = { door: 'member', role: 'ORG_ADMIN', isHeaderNeeded: true };

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
  const { organizationId } = c.get('tenant');
  const what = 'webhooks created, moved, enabled and tested, and events sent again, by the organization';
  await requireShare(c, `webhook-tests:${organizationId}`, LIMIT.webhookTestsPerMinute, what);
}
