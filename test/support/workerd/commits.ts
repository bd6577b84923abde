/** Commits to the registry without a request: the audit row, and the change that no object gets. */
import { env } from 'cloudflare:workers';
import type { AuditEventName } from '../../../protocol/audit-names.ts';
import { type RegistryChange, storeTargetsLeft } from '../../../registry/changes.ts';
import type { AuditEntry } from '../../../registry/entries.ts';
import type { Organization } from './world.ts';

/** Makes the audit row of an action of the organization's admin, for a target. */
export function auditOf(
  { id: organizationId, slug, adminId }: Organization,
  event: AuditEventName,
  type: string,
) {
  return (id: string): AuditEntry => ({
    organizationId,
    event,
    actor: { type: 'USER', id: adminId, name: slug },
    target: { type, id },
    address: null,
    outcome: 'SUCCESS',
    details: {},
  });
}

/** The result of a registry function; throws if the registry refused. */
export function done<Answer>(answer: Answer | string): Answer {
  if (typeof answer === 'string') throw new Error(`the registry refuses it: ${answer}`);
  return answer;
}

/** Marks a change as delivered: no object gets it. */
export async function markDelivered({ id }: RegistryChange): Promise<void> {
  await storeTargetsLeft(env.DB, id, [], Date.now());
}
