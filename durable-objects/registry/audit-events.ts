/** Audit rows (spec: Audit events; [C-8.4]). An id that is derived from the cause keeps a retry from adding a row. */
import { sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { auditEvents } from '../../migrations/schema.ts';
import { derivedUuid } from '../secrets/hmac.ts';
import type { AuditEntry } from './entries.ts';

const MINUTE_MS = 60_000;
const MAX_ACTOR_CHARS = 256;

/** The audit row of an action, for the same batch as the action. `cause`: retries with the same cause add no row. */
export function auditRow(db: DrizzleD1Database, entry: AuditEntry, now: number, cause?: string) {
  return db
    .insert(auditEvents)
    .values(valuesOf(entry, now, cause))
    .onConflictDoNothing();
}

/** As `auditRow`, but a row of the same cause counts the entry. */
export function countedAuditRow(db: DrizzleD1Database, entry: AuditEntry, now: number, cause: string) {
  return db
    .insert(auditEvents)
    .values(valuesOf(entry, now, cause))
    .onConflictDoUpdate({ target: auditEvents.id, set: { count: sql`${auditEvents.count} + 1` } });
}

function valuesOf(entry: AuditEntry, now: number, cause: string | undefined) {
  const { organizationId, event, actor, target, address, outcome, details } = entry;
  return {
    id: cause === undefined ? crypto.randomUUID() : derivedUuid(`audit|${cause}`),
    organizationId,
    event,
    actorType: actor.type,
    actor: actor.id,
    actorName: actor.name,
    targetType: target?.type ?? '',
    target: target?.id ?? null,
    address,
    outcome,
    details,
    createdAtMs: now,
  };
}

/** The audit row of an action, inserted only if the previous statement of the batch changed a row. */
export function auditRowIfChanged(db: DrizzleD1Database, entry: AuditEntry, now: number) {
  const { organizationId, event, actor, target, address, outcome, details } = entry;
  // The values are in column order of the schema, as Drizzle requires; a batch does not accept a raw statement.
  return db
    .insert(auditEvents)
    .select(sql`SELECT ${crypto.randomUUID()}, ${organizationId}, ${event}, ${actor.id},
    ${address}, ${target?.id ?? null}, ${outcome}, ${JSON.stringify(details)}, ${now}, 1, ${actor.type}, ${actor.name},
    ${target?.type ?? ''} WHERE changes() > 0`);
}

/** A rejected AMQP connection. */
export interface RefusedConnection {
  organizationId: string;
  username: string;
  address: string;
  reason: string;
}

/** Writes one row per organization, user name, address, reason and minute, with a count [C-6.3]. */
export async function writeRefusedConnection(
  database: D1Database,
  refused: RefusedConnection,
  now: number,
): Promise<void> {
  const { organizationId, address, reason } = refused;
  const actor = refused.username.slice(0, MAX_ACTOR_CHARS);
  const minute = Math.floor(now / MINUTE_MS);
  const cause = JSON.stringify([
    'partner.connection_refused',
    organizationId,
    actor,
    address,
    reason,
    minute,
  ]);
  await drizzle(database)
    .insert(auditEvents)
    .values({
      id: derivedUuid(`audit|${cause}`),
      organizationId,
      event: 'partner.connection_refused',
      actor,
      address,
      target: null,
      outcome: 'FAILURE',
      details: { reason },
      createdAtMs: now,
    })
    .onConflictDoUpdate({ target: auditEvents.id, set: { count: sql`${auditEvents.count} + 1` } });
}

/** Writes one row for the first connection of a key. */
export async function writeConnected(
  database: D1Database,
  key: { organizationId: string; keyId: string; keyPrefix: string },
  address: string,
  now: number,
): Promise<void> {
  const { organizationId, keyId, keyPrefix } = key;
  const entry: AuditEntry = {
    organizationId,
    event: 'partner.connected',
    actor: { type: 'API_KEY', id: keyId, name: keyPrefix },
    target: { type: 'API_KEY', id: keyId },
    address,
    outcome: 'SUCCESS',
    details: {},
  };
  await auditRow(drizzle(database), entry, now, `partner.connected|${keyId}`);
}
