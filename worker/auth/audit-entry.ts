/** Creates the audit entry of a request's action [C-8.4]. */
import type { Context } from 'hono';
import type { AuditEventName } from '../../protocol/audit-names.ts';
import type { Actor, AuditEntry } from '../../registry/entries.ts';
import type { AppContext } from '../env.ts';
import { addressOf } from './address.ts';

/** The entry of an action of the caller in its own organization. */
export function auditEntry(
  c: Context<AppContext>,
  event: AuditEventName,
  target: AuditEntry['target'],
  details: Record<string, unknown> = {},
  outcome: AuditEntry['outcome'] = 'SUCCESS',
): AuditEntry {
  return { ...auditEntryOf(c, c.get('tenant'), event, target, details), outcome };
}

/** The entry of an action of `actor` in an organization; null: the action belongs to no organization. */
export function auditEntryOf(
  c: Context<AppContext>,
  { organizationId, actor }: { organizationId: string | null; actor: Actor },
  event: AuditEventName,
  target: AuditEntry['target'],
  details: Record<string, unknown> = {},
): AuditEntry {
  return { organizationId, event, actor, target, address: addressOf(c), outcome: 'SUCCESS', details };
}
