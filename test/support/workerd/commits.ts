/** What goes with a commit to the registry where no request makes it: who did it, and what becomes of it. */
import { env } from 'cloudflare:workers';
import type { AuditEntry } from '../../../durable-objects/registry/entries.ts';
import { type RegistryChange, settleChange } from '../../../worker/registry/changes.ts';
import type { Organization } from './world.ts';

/** The audit row of what the organization's admin does, by its target. */
export function auditOf({ id: organizationId, slug, adminId }: Organization, event: string, type: string) {
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

/** What the registry has done; a refusal is the test's mistake. */
export function done<Answer>(answer: Answer | string): Answer {
  if (typeof answer === 'string') throw new Error(`the registry refuses it: ${answer}`);
  return answer;
}

/** The change is over: no object hears of it, now or later. */
export async function tellNobody({ id }: RegistryChange): Promise<void> {
  await settleChange(env.DB, id, [], Date.now());
}
