/** Audit rows (spec: Audit events; [C-8.4]). An id derived from the cause makes a repeat write nothing. */
import { drizzle } from 'drizzle-orm/d1';
import { derivedUuid } from '../../durable-objects/secrets/hmac.ts';
import { auditEvents } from '../../migrations/schema.ts';

export interface AuditEvent {
  /** What happened once, in words of its own: two rows of one cause are one row. */
  cause: string;
  organizationId: string | null;
  event: 'partner.connected' | 'partner.connection_refused';
  actor: string;
  address: string | null;
  target: string | null;
  outcome: 'success' | 'refused';
  details?: Record<string, unknown>;
}

export async function writeAudit(database: D1Database, event: AuditEvent, now: number): Promise<void> {
  const { cause, details = {}, ...columns } = event;
  await drizzle(database)
    .insert(auditEvents)
    .values({ id: derivedUuid(`audit|${cause}`), ...columns, details, createdAtMs: now })
    .onConflictDoNothing();
}
