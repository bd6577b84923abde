/** Creates the audit entry of a request's action [C-8.4]. */
import type { Context } from 'hono';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import type { AuditEventName } from '../../protocol/audit.ts';
import type { AppContext } from '../env.ts';
import { addressOf } from './address.ts';

export function auditEntry(
  c: Context<AppContext>,
  event: AuditEventName,
  target: AuditEntry['target'],
  details: Record<string, unknown> = {},
  outcome: AuditEntry['outcome'] = 'SUCCESS',
): AuditEntry {
  const { organizationId, actor } = c.get('tenant');
  return { organizationId, event, actor, target, address: addressOf(c), outcome, details };
}
