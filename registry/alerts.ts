/** Alert rules and alerts in D1 [C-9]. */
import {
  and,
  count,
  eq,
  getTableColumns,
  gt,
  inArray,
  isNull,
  lt,
  lte,
  or,
  type SQL,
  sql,
} from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import {
  type AlertRecord,
  type AlertRuleRecord,
  type AlertRuleRequest,
  type AlertStatus,
  forSecondsOf,
} from '../protocol/alert.ts';
import type { Cursor, FoundPage, PageRequest } from '../protocol/page.ts';
import { keptFromMs } from './audit.ts';
import { auditRowIfChanged } from './audit-events.ts';
import { type ChangeTargets, commitChange, commitChangeOf, type RegistryChange } from './changes.ts';
import {
  areFewer,
  boundedCountOf,
  isAfter,
  isAmong,
  type ListOrder,
  orderBy,
  readPage,
  withInstants,
} from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { ceilingIn } from './organizations.ts';
import { alertRules, alerts, devices, organizations } from './schema.ts';

export type AlertRuleRow = typeof alertRules.$inferSelect;
export type AlertRow = typeof alerts.$inferSelect;

/** The alerts that a caller may see: those of an organization or, for a limited key, of its allowed plants. */
export interface AlertsOf {
  organizationId: string;
  allowedPlantIds: string[] | null;
}

/** The filters of a list. */
export interface AlertFilter {
  plantId?: string | undefined;
  deviceId?: string | undefined;
  status?: AlertStatus | undefined;
  /** Only alerts that were open at this time. */
  openAtMs?: number | undefined;
}

const ORDER: ListOrder = { column: alerts.firstSeenAtMs, id: alerts.id, direction: 'desc' };
const RULE_ORDER: ListOrder = { column: alertRules.createdAtMs, id: alertRules.id, direction: 'desc' };

export async function pageAlerts(
  database: D1Database,
  of: AlertsOf,
  { plantId, deviceId, status, openAtMs }: AlertFilter,
  request: PageRequest,
  now: number,
): Promise<FoundPage<AlertRow>> {
  const isToCome = openAtMs !== undefined && openAtMs >= now;
  const isMeant = and(
    eq(alerts.organizationId, of.organizationId),
    isAmong(alerts.plantId, of.allowedPlantIds),
    plantId === undefined ? undefined : eq(alerts.plantId, plantId),
    deviceId === undefined ? undefined : eq(alerts.deviceId, deviceId),
    status === undefined ? undefined : eq(alerts.status, status),
    openAtMs === undefined ? undefined : lte(alerts.firstSeenAtMs, openAtMs),
    // With these words the database uses the index of the open alerts.
    (status !== undefined && status !== 'RESOLVED') || isToCome ? sql`"status" <> 'RESOLVED'` : undefined,
    openAtMs === undefined || isToCome
      ? undefined
      : or(isNull(alerts.resolvedAtMs), gt(alerts.resolvedAtMs, openAtMs)),
  );
  const db = drizzle(database);
  const rows = db
    .select()
    .from(alerts)
    .where(and(isMeant, isAfter(ORDER, request.before)))
    .orderBy(...orderBy(ORDER));
  return await readPage(db, request, rows, boundedCountOf(db, alerts, isMeant));
}

/** Newest first. A key that is limited to plants sees the rules about these plants and their devices. */
export async function pageAlertRules(
  database: D1Database,
  of: AlertsOf,
  { plantId, deviceId }: Pick<AlertFilter, 'plantId' | 'deviceId'>,
  request: PageRequest,
): Promise<FoundPage<AlertRuleRow>> {
  const isMeant = and(
    rulesOf(of),
    plantId === undefined ? undefined : eq(alertRules.plantId, plantId),
    deviceId === undefined ? undefined : eq(alertRules.deviceId, deviceId),
  );
  const db = drizzle(database);
  const isOfDevice = eq(devices.id, alertRules.deviceId);
  const rows = db
    .select(getTableColumns(alertRules))
    .from(alertRules)
    .leftJoin(devices, isOfDevice)
    .where(and(isMeant, isAfter(RULE_ORDER, request.before)));
  const counted = db.select({ total: count() }).from(alertRules).leftJoin(devices, isOfDevice).where(isMeant);
  return await readPage(db, request, rows.orderBy(...orderBy(RULE_ORDER)), counted);
}

export async function findAlert(
  database: D1Database,
  of: AlertsOf,
  id: string,
): Promise<AlertRow | undefined> {
  return await drizzle(database)
    .select()
    .from(alerts)
    .where(
      and(
        eq(alerts.id, id),
        eq(alerts.organizationId, of.organizationId),
        isAmong(alerts.plantId, of.allowedPlantIds),
      ),
    )
    .get();
}

export async function findAlertRule(
  database: D1Database,
  of: AlertsOf,
  id: string,
): Promise<AlertRuleRow | undefined> {
  return await drizzle(database)
    .select(getTableColumns(alertRules))
    .from(alertRules)
    .leftJoin(devices, eq(devices.id, alertRules.deviceId))
    .where(and(eq(alertRules.id, id), rulesOf(of)))
    .get();
}

/** `full`: the organization has reached its limit of alert rules. */
export async function createAlertRule(
  database: D1Database,
  organizationId: string,
  request: AlertRuleRequest,
  affected: ChangeTargets,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<{ row: AlertRuleRow; change: RegistryChange } | 'full'> {
  const { name, severity, metric, operator, cooldownSeconds, enabled, mailTo } = request;
  const row: AlertRuleRow = {
    id: crypto.randomUUID(),
    organizationId,
    plantId: request.plantId ?? null,
    deviceId: request.deviceId ?? null,
    name,
    severity,
    metric,
    operator,
    threshold: operator === 'ABSENT' ? null : (request.threshold ?? null),
    forSeconds: forSecondsOf(request),
    cooldownSeconds,
    enabled,
    mailTo,
    createdAtMs: now,
    updatedAtMs: now,
  };
  const isOwn = eq(alertRules.organizationId, organizationId);
  const hasRoom = areFewer(alertRules, isOwn, ceilingIn(organizationId, 'alertRules'));
  const change = await commitChangeOf(database, organizationId, affected, audit(row.id), now, (db) => [
    insertIf(db, alertRules, row, hasRoom).returning({ id: alertRules.id }),
  ]);
  return change === 'gone' ? 'full' : { row, change };
}

export async function changeAlertRule(
  database: D1Database,
  { id, organizationId }: AlertRuleRow,
  columns: Partial<AlertRuleRow>,
  affected: ChangeTargets,
  audit: AuditEntry,
  now: number,
): Promise<{ row: AlertRuleRow; change: RegistryChange } | 'gone'> {
  const { results, ...change } = await commitChange(database, organizationId, affected, now, (db) => [
    db
      .update(alertRules)
      .set({ ...columns, updatedAtMs: now })
      .where(and(eq(alertRules.id, id), eq(alertRules.organizationId, organizationId)))
      .returning(),
    auditRowIfChanged(db, audit, now),
  ]);
  const [row] = results[0] as AlertRuleRow[];
  return row ? { row, change } : 'gone';
}

/** Changes an alert if it is still in one of these states; otherwise returns false. */
export async function changeAlert(
  database: D1Database,
  { id, organizationId }: { id: string; organizationId: string },
  states: readonly AlertStatus[],
  columns: Partial<AlertRow>,
  audit: AuditEntry,
  now: number,
): Promise<boolean> {
  const db = drizzle(database);
  const [changed] = await db.batch([
    db
      .update(alerts)
      .set({ lastSeenAtMs: sql`${alerts.lastSeenAtMs}`, ...columns })
      .where(
        and(
          eq(alerts.id, id),
          eq(alerts.organizationId, organizationId),
          inArray(alerts.status, [...states]),
        ),
      )
      .returning({ id: alerts.id }),
    auditRowIfChanged(db, audit, now),
  ]);
  return changed.length > 0;
}

/** Deletes up to `most` alerts that were resolved before their organization's retention period of audit events. */
export async function dropOldAlerts(database: D1Database, now: number, most: number): Promise<void> {
  const db = drizzle(database);
  const over = db
    .select({ id: alerts.id })
    .from(alerts)
    .innerJoin(organizations, eq(organizations.id, alerts.organizationId))
    .where(lt(alerts.resolvedAtMs, keptFromMs(now)))
    .limit(most);
  await db.delete(alerts).where(sql`${alerts.id} IN ${over}`);
}

/** Condition for rules joined with their device. The plant of a rule about a device is the device's plant. */
function rulesOf(of: AlertsOf): SQL | undefined {
  return and(
    eq(alertRules.organizationId, of.organizationId),
    isAmong(sql`coalesce(${alertRules.plantId}, ${devices.plantId})`, of.allowedPlantIds),
  );
}

export function alertCursorOf({ firstSeenAtMs, id }: AlertRow): Cursor {
  return { value: firstSeenAtMs, id };
}

export function ruleCursorOf({ createdAtMs, id }: AlertRuleRow): Cursor {
  return { value: createdAtMs, id };
}

export function ruleRecordOf({ organizationId: _own, ...row }: AlertRuleRow): AlertRuleRecord {
  return { ...withInstants(row), kind: 'RULE' };
}

export function alertRecordOf({ organizationId: _own, mailDue: _due, ...row }: AlertRow): AlertRecord {
  return { ...withInstants(row), kind: 'ALERT' };
}
