/** Alert rules that tests write into the registry and report to its Sites, and the alerts that fired. */
import { env } from 'cloudflare:workers';
import type {
  AlertOperator,
  AlertRuleRequest,
  AlertSeverity,
  AlertStatus,
  AlertType,
} from '../../../protocol/alert.ts';
import { type AlertRuleRow, changeAlertRule, createAlertRule } from '../../../registry/alerts.ts';
import type { AlertEntry } from '../../../registry/entries.ts';
import { writeRegistry } from '../../../registry/writes.ts';
import { auditOf, done } from './commits.ts';
import { changeNothing, changeRegistry, notifySite, type Step } from './registry-changes.ts';
import { setScene } from './scene.ts';
import { passTime, passUntilSent } from './site-clock.ts';
import { answerPings, publish, rawTelemetry, sendTelemetry } from './site-devices.ts';
import { rowsOf } from './site-rows.ts';
import type { Organization } from './world.ts';

export interface RuleOptions {
  plantId?: string;
  deviceId?: string;
  metric?: string;
  operator?: AlertOperator;
  threshold?: number | null;
  forSeconds?: number;
  cooldownSeconds?: number;
  enabled?: boolean;
  mailTo?: string[];
}

/** Adds a rule (default: grid power over 10 kW) and returns its id when the Sites have it. */
export async function putRule(
  organization: Organization,
  siteIds: readonly string[],
  options: RuleOptions = {},
): Promise<string> {
  const { metric = 'gridPowerKw', operator = 'GT', threshold = 10 } = options;
  const request: AlertRuleRequest = {
    name: 'Rule',
    severity: 'WARNING',
    metric,
    operator,
    ...(operator === 'ABSENT' || threshold === null ? {} : { threshold }),
    plantId: options.plantId ?? null,
    deviceId: options.deviceId ?? null,
    ...(options.forSeconds === undefined ? {} : { forSeconds: options.forSeconds }),
    cooldownSeconds: options.cooldownSeconds ?? 300,
    enabled: options.enabled ?? true,
    mailTo: options.mailTo ?? [],
  };
  let id = '';
  await commitRules(organization, siteIds, async ({ id: organizationId }) => {
    const audit = auditOf(organization, 'alert_rule.created', 'ALERT_RULE');
    const made = done(
      await createAlertRule(env.DB, organizationId, request, { sites: [] }, audit, Date.now()),
    );
    id = made.row.id;
    return made.change;
  });
  return id;
}

/** Commits changes of rules and reports them to the Sites. */
export async function commitRules(
  organization: Organization,
  siteIds: readonly string[],
  ...steps: Step[]
): Promise<void> {
  const version = await changeRegistry(organization, ...steps);
  for (const siteId of siteIds) await notifySite(siteId, version);
}

export function changeRule(id: string, columns: Partial<AlertRuleRow>): Step {
  return async (organization) => {
    const audit = auditOf(organization, 'alert_rule.updated', 'ALERT_RULE')(id);
    const rule = { id, organizationId: organization.id } as AlertRuleRow;
    return done(await changeAlertRule(env.DB, rule, columns, { sites: [] }, audit, Date.now())).change;
  };
}

/** Deletes a rule, which the product does only together with the plant of the rule. */
export function deleteRule(id: string): Step {
  return async (organization) => {
    await env.DB.prepare('DELETE FROM alert_rules WHERE id = ?').bind(id).run();
    return await changeNothing(organization);
  };
}

/** Writes an alert as a Site reports it (default: a nearly empty battery) and returns its id. */
export async function fireAlert(organizationId: string, changes: Partial<AlertEntry> = {}): Promise<string> {
  const entry: AlertEntry = {
    id: crypto.randomUUID(),
    organizationId,
    ruleId: crypto.randomUUID(),
    plantId: crypto.randomUUID(),
    deviceId: null,
    type: 'THRESHOLD',
    severity: 'WARNING',
    message: 'nearly empty',
    value: 9,
    threshold: 10,
    firstSeenAtMs: Date.now(),
    lastSeenAtMs: Date.now(),
    count: 1,
    ...changes,
  };
  await writeRegistry(env.DB, [{ kind: 'alert-begun', entry }]);
  return entry.id;
}

export interface FiredAlert {
  id: string;
  organizationId: string;
  ruleId: string | null;
  plantId: string | null;
  deviceId: string | null;
  type: AlertType;
  severity: AlertSeverity;
  status: AlertStatus;
  message: string;
  value: number | null;
  threshold: number | null;
  firstSeenAtMs: number;
  lastSeenAtMs: number;
  count: number;
  note: string | null;
  acknowledgedBy: string | null;
  acknowledgedAtMs: number | null;
  resolvedBy: string | null;
  resolvedAtMs: number | null;
}

/** The alerts of a plant, oldest first, when its Site has reported everything. */
export async function firedAt(siteId: string): Promise<FiredAlert[]> {
  await passUntilSent(siteId);
  const { results } = await env.DB.prepare(
    `SELECT id, organization_id AS organizationId, rule_id AS ruleId, plant_id AS plantId, device_id AS deviceId, type,
       severity, status, message, value, threshold, first_seen_at_ms AS firstSeenAtMs, last_seen_at_ms AS lastSeenAtMs,
       count, note, acknowledged_by AS acknowledgedBy, acknowledged_at_ms AS acknowledgedAtMs,
       resolved_by AS resolvedBy, resolved_at_ms AS resolvedAtMs
     FROM alerts WHERE plant_id = ? ORDER BY first_seen_at_ms, rowid`,
  )
    .bind(siteId)
    .all<FiredAlert>();
  return results;
}

/** The statuses of a plant's alerts. */
export async function statusesAt(siteId: string): Promise<AlertStatus[]> {
  return (await firedAt(siteId)).map(({ status }) => status);
}

/** Changes the alerts of a plant in D1, as the Worker does for a user. */
export async function changeAlerts(siteId: string, assignments: string): Promise<void> {
  await env.DB.prepare(`UPDATE alerts SET ${assignments} WHERE plant_id = ?`).bind(siteId).run();
}

/** Counts the rows about alerts that a Site writes for D1 from now on. */
export async function countReports(siteId: string): Promise<() => Promise<number>> {
  await rowsOf(siteId, 'CREATE TABLE reported (kind TEXT)');
  await rowsOf(
    siteId,
    `CREATE TRIGGER counted AFTER INSERT ON outbox WHEN NEW.kind LIKE 'alert%' BEGIN INSERT INTO reported VALUES (NEW.kind); END`,
  );
  return async () => (await rowsOf(siteId, 'SELECT kind FROM reported')).length;
}

/** A site with one rule, whose gateway sends the grid power. For files that hold the clock. */
export async function newRuledSite(options: RuleOptions = {}) {
  const scene = await setScene({ gateway: 'connected' });
  const { organization, plant, link, gateway } = scene;
  // The gateway stays connected, also while it sends no telemetry.
  await answerPings(plant.id);
  const ruleId = await putRule(organization, [plant.id], { plantId: plant.id, ...options });
  const send = (gridPowerKw: number) => sendTelemetry(link, gateway, { gridPowerKw });
  const sendLate = (gridPowerKw: number, ageMs: number) =>
    publish(link, rawTelemetry(gateway, { ts: Date.now() - ageMs, data: JSON.stringify({ gridPowerKw }) }));
  const pass = (durationMs: number) => passTime(plant.id, durationMs);
  const change = (...steps: Step[]) => commitRules(organization, [plant.id], ...steps);
  return { ...scene, ruleId, send, sendLate, pass, change, fired: () => firedAt(plant.id) };
}
