/**
 * Audit rows (spec: Audit events; [C-8.4]). The id of a row is derived from the row's cause, so a retry adds no
 * second row. Without a cause it is derived from the event and its minute: a retry is then counted as another
 * event.
 */
import { type SQL, sql } from 'drizzle-orm';
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1';
import { derivedUuid } from '../durable-objects/secrets/hmac.ts';
import { AUDIT_DETAILS_BYTES, boundedDetails } from './audit-details.ts';
import type { AuditEntry } from './entries.ts';
import { IF_CHANGED, insertIf } from './insert-if.ts';
import { auditEvents } from './schema.ts';

const MINUTE_MS = 60_000;
const MAX_ACTOR_CHARS = 256;
const REFUSED_EVENT = 'partner.connection_refused';
/** Maximum number of rows for one reason in a minute; the last one counts all further refusals. */
const MAX_REFUSED_ROWS = 10;

/**
 * The audit row of an action, for the same batch as the action. Equal events of a minute, with the same actor,
 * target and outcome, share a row that counts them [C-14.3]. An event with a `cause` gets its own row, and a
 * retry with the same cause adds and counts nothing.
 */
export function auditRow(db: DrizzleD1Database, entry: AuditEntry, now: number, cause?: string) {
  const row = db.insert(auditEvents).values(valuesOf(entry, now, cause));
  return cause === undefined ? row.onConflictDoUpdate(COUNTED) : row.onConflictDoNothing();
}

/** As `auditRow`, but only if the previous statement of the batch changed a row. */
export function auditRowIfChanged(db: DrizzleD1Database, entry: AuditEntry, now: number) {
  return insertIf(db, auditEvents, valuesOf(entry, now, undefined), IF_CHANGED).onConflictDoUpdate(COUNTED);
}

/**
 * The details of the new event, with its `address` if that differs from the address of the first event in the
 * row.
 */
const OWN = sql`iif(excluded.address IS ${auditEvents.address}, excluded.details,
  json_set(excluded.details, '$.address', excluded.address))`;
const EARLIER = sql`coalesce(${auditEvents.details} -> '$.earlier', '[]')`;
const LAST = sql`json_remove(${auditEvents.details}, '$.earlier', '$.more')`;
const WHOLE = sql`json_set(${OWN}, '$.earlier', json_insert(${EARLIER}, '$[#]', json(${LAST})))`;
/**
 * Used when `earlier` has no room for one more entry: the new details replace the last ones, and `more`
 * records that details were left out.
 */
const CUT = sql`json_set(${OWN}, '$.earlier', json(${EARLIER}), '$.more', json('true'))`;
const fits = (details: SQL) => sql`length(CAST(${details} AS BLOB)) <= ${AUDIT_DETAILS_BYTES}`;

/**
 * What an equal event changes in its row: the row's details become those of the new event, and `earlier`
 * keeps the details of the previous events, so that nobody can hide a change by making another one.
 */
const COUNTED = {
  target: auditEvents.id,
  set: {
    count: sql`${auditEvents.count} + 1`,
    details: sql`CASE WHEN ${LAST} = ${OWN} THEN ${auditEvents.details}
      WHEN ${auditEvents.details} -> '$.more' IS NULL AND ${fits(WHOLE)} THEN ${WHOLE}
      WHEN ${fits(CUT)} THEN ${CUT} ELSE json_set(excluded.details, '$.more', json('true')) END`,
  },
};

function valuesOf(entry: AuditEntry, now: number, cause: string | undefined) {
  const { organizationId, event, actor, target, address, outcome, details } = entry;
  const same = [organizationId, event, actor.id, target?.id ?? null, outcome, Math.floor(now / MINUTE_MS)];
  return {
    id: derivedUuid(`audit|${cause ?? JSON.stringify(same)}`),
    organizationId,
    event,
    actorType: actor.type,
    actor: actor.id,
    actorName: actor.type === 'USER' ? null : actor.name,
    targetType: target?.type ?? '',
    target: target?.id ?? null,
    address,
    outcome,
    details: boundedDetails(details),
    createdAtMs: now,
  };
}

/** A rejected AMQP connection. */
export interface RefusedConnection {
  organizationId: string;
  username: string;
  address: string;
  reason: string;
  /** The key that the client named; undefined if the organization has no such key. */
  key?: { id: string; prefix: string } | undefined;
}

type RefusedRow = Pick<typeof auditEvents.$inferInsert, 'id' | 'actor' | 'address' | 'target' | 'details'>;

/**
 * Writes one row per organization, user name, key, address, reason and minute, with a count [C-6.3]. After nine rows of a
 * reason in a minute all further ones share one row, so that refusals from many addresses cannot fill a log [C-14.6].
 */
export async function writeRefusedConnection(
  database: D1Database,
  refused: RefusedConnection,
  now: number,
): Promise<void> {
  const db = drizzle(database);
  const { organizationId, address, reason, key } = refused;
  const actor = refused.username.slice(0, MAX_ACTOR_CHARS);
  const minuteMs = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const idOf = (...cause: string[]) =>
    derivedUuid(
      `audit|${JSON.stringify([REFUSED_EVENT, organizationId, ...cause, reason, minuteMs / MINUTE_MS])}`,
    );
  const id = idOf(actor, key?.id ?? '', address);
  const details = { reason, ...(key ? { keyPrefix: key.prefix } : {}) };
  const rowsOfMinute = sql`(SELECT count(*) FROM ${auditEvents} WHERE ${auditEvents.organizationId} = ${organizationId}
    AND ${auditEvents.createdAtMs} >= ${minuteMs} AND ${auditEvents.event} = ${REFUSED_EVENT}
    AND json_extract(${auditEvents.details}, '$.reason') = ${reason})`;
  const isKnown = sql`EXISTS (SELECT 1 FROM ${auditEvents} WHERE ${auditEvents.id} = ${id})`;
  const counted = { target: auditEvents.id, set: { count: sql`${auditEvents.count} + 1` } };
  const common = { organizationId, event: REFUSED_EVENT, outcome: 'FAILURE', createdAtMs: now };
  const insert = (row: RefusedRow, condition: SQL) =>
    insertIf(db, auditEvents, { ...common, ...row }, condition).onConflictDoUpdate(counted);
  const hasRoom = sql`${isKnown} OR ${rowsOfMinute} < ${MAX_REFUSED_ROWS - 1}`;
  await db.batch([
    insert({ id, actor, address, target: key?.id, details }, hasRoom),
    insert({ id: idOf('several'), actor: 'several', details: { reason, folded: true } }, sql`changes() = 0`),
  ]);
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
