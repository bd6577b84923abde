/** Alert rules, and the alerts that they open [C-9]. Both kinds share the path /alerts. */
import type { Context } from 'hono';
import * as z from 'zod';
import {
  ALERT_KINDS,
  ALERT_STATUSES,
  type AlertChange,
  type AlertRecord,
  type AlertRuleRecord,
  type AlertStatus,
  alertAction,
  alertChange,
  alertRecord,
  alertRuleRecord,
  alertRuleRequest,
  isWhole,
  waitsForAbsence,
} from '../../protocol/alert.ts';
import { ceilingsOf } from '../../protocol/ceilings.ts';
import { uuid } from '../../protocol/ids.ts';
import { longPageSchema } from '../../protocol/page.ts';
import {
  type AlertRow,
  type AlertRuleRow,
  alertCursorOf,
  alertRecordOf,
  changeAlert,
  changeAlertRule,
  createAlertRule,
  findAlert,
  findAlertRule,
  pageAlertRules,
  pageAlerts,
  ruleCursorOf,
  ruleRecordOf,
} from '../../registry/alerts.ts';
import { membersAmong } from '../../registry/members.ts';
import { requireDevice, requirePlant } from '../auth/access.ts';
import { auditEntry } from '../auth/audit-entry.ts';
import type { Who } from '../auth/door.ts';
import { requireRole } from '../auth/rank.ts';
import type { AppContext } from '../env.ts';
import { ApiError, conflict, forbidden, invalidBody, limitReached } from '../http/error-response.ts';
import { longPageOf } from '../http/long-page.ts';
import { idParameter, instantParameter, longPageParameters } from '../http/query.ts';
import { siteById } from '../lifecycle/device-site.ts';
import { announce } from '../lifecycle/registry-change.ts';
import { route } from '../route.ts';

const READS_ALERTS: Who = { door: 'member', role: 'VIEWER', scope: 'telemetry:read' };
const WRITES_ALERTS: Who = { door: 'member', role: 'VIEWER', scope: 'telemetry:write' };
const RULE_ROLE = 'OPERATOR';
const WRITES_RULES: Who = { door: 'member', role: RULE_ROLE, scope: 'telemetry:write' };
const OPEN: readonly AlertStatus[] = ['ACTIVE', 'ACKNOWLEDGED'];

type Shown = AlertRecord | AlertRuleRecord;
const eitherRecord = z.union([alertRecord, alertRuleRecord]);

export const alertRoutes = [
  route('GET /api/v1/alerts', {
    summary: 'List alerts or alert rules',
    who: READS_ALERTS,
    query: z.object({
      ...longPageParameters,
      kind: z.enum(ALERT_KINDS).default('ALERT'),
      status: z.enum(ALERT_STATUSES).optional(),
      plantId: uuid.optional(),
      deviceId: uuid.optional(),
      at: instantParameter.optional(),
    }),
    answer: {
      description:
        'A page of alerts, newest first, with `at` of those that were not resolved at that time, as they are now; with `kind=RULE`, of alert rules. Send `meta.next` as `before` for the next page',
      body: longPageSchema<Shown>(eitherRecord),
    },
    handler: async (c, { query }) => {
      const of = c.get('tenant');
      if (query.kind === 'ALERT') {
        const filter = { ...query, openAtMs: query.at };
        const found = await pageAlerts(c.env.DB, of, filter, query, Date.now());
        return longPageOf(found, query, alertRecordOf, alertCursorOf);
      }
      const rules = await pageAlertRules(c.env.DB, of, query, query);
      return longPageOf<AlertRuleRow, Shown>(rules, query, ruleRecordOf, ruleCursorOf);
    },
  }),
  route('POST /api/v1/alerts', {
    summary: 'Create an alert rule for a plant, a device or all plants',
    who: WRITES_RULES,
    body: alertRuleRequest,
    examples: {
      body: {
        name: 'Battery nearly empty',
        severity: 'WARNING',
        plantId: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
        metric: 'BESS-1/socPercent',
        operator: 'LT',
        threshold: 10,
        forSeconds: 120,
      },
    },
    answer: {
      status: 201,
      description: 'The alert rule; it is evaluated from now on',
      body: alertRuleRecord,
    },
    errors: ['PLANT_NOT_FOUND', 'NOT_FOUND', 'FORBIDDEN', 'CONFLICT'],
    handler: async (c, { body }) => {
      const { organizationId, allowedPlantIds } = c.get('tenant');
      await requireMembers(c, body.mailTo);
      const sites = await sitesOf(c, body);
      if (allowedPlantIds !== null && sites === 'all')
        throw forbidden(
          'The API key is limited to certain plants and cannot create a rule for all plants: send plantId or deviceId',
        );
      if (sites.length === 0)
        throw new ApiError(
          'NOT_FOUND',
          'The device has no plant, so nothing would evaluate the rule: move the device to a plant first',
        );
      const { name, severity, metric, operator } = body;
      const audit = (id: string) =>
        auditEntry(c, 'alert_rule.created', { type: 'ALERT_RULE', id }, { name, severity, metric, operator });
      const made = await createAlertRule(c.env.DB, organizationId, body, { sites }, audit, Date.now());
      if (made === 'full')
        throw limitReached(
          'organization',
          ceilingsOf(c.get('tenant').ceilings).alertRules,
          'alert rules: change an existing one',
        );
      await announce(c, made.change);
      return ruleRecordOf(made.row);
    },
  }),
  route('PATCH /api/v1/alerts/{id}', {
    summary: 'Update an alert rule, or the severity and note of an alert',
    who: WRITES_ALERTS,
    params: idParameter,
    body: alertChange,
    examples: { body: { threshold: 15, enabled: true } },
    answer: { description: 'The alert rule or the alert', body: eitherRecord },
    errors: ['NOT_FOUND'],
    handler: async (c, { params: { id }, body }) => {
      const of = c.get('tenant');
      const rule = await findAlertRule(c.env.DB, of, id);
      if (rule) {
        if (of.role !== null) requireRole(of.role, RULE_ROLE);
        return await changeRule(c, rule, body);
      }
      await requireAlert(c, id);
      requireOnly(body, ['severity', 'note']);
      const given = onlyGiven({ severity: body.severity, note: body.note });
      const audit = auditEntry(c, 'alert.updated', { type: 'ALERT', id }, given);
      const { organizationId } = of;
      await changeAlert(c.env.DB, { id, organizationId }, ALERT_STATUSES, given, audit, Date.now());
      return alertRecordOf(await requireAlert(c, id));
    },
  }),
  route('POST /api/v1/alerts/{id}/acknowledge', {
    summary: 'Acknowledge an alert',
    who: WRITES_ALERTS,
    params: idParameter,
    body: alertAction,
    isBodyOptional: true,
    answer: { description: 'The acknowledged alert', body: alertRecord },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id }, body }) => {
      const alert = await requireAlert(c, id);
      const now = Date.now();
      const columns = { acknowledgedBy: c.get('tenant').actor.id, acknowledgedAtMs: now };
      return await moveAlert(c, alert, ['ACTIVE'], 'ACKNOWLEDGED', { ...columns, ...onlyGiven(body) }, now);
    },
  }),
  route('POST /api/v1/alerts/{id}/resolve', {
    summary: 'Resolve an alert',
    who: WRITES_ALERTS,
    params: idParameter,
    body: alertAction,
    isBodyOptional: true,
    answer: {
      description: 'Resolved; the rule does not fire again for this plant until its cooldown has passed',
      body: alertRecord,
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id }, body }) => {
      const alert = await requireAlert(c, id);
      if (!OPEN.includes(alert.status)) throw wrongState(alert, OPEN);
      const now = Date.now();
      // Ends the alert in its Site first, so that the Site does not reopen it. A repeated call has no effect.
      if (alert.plantId !== null) await siteById(c.env, alert.plantId).endAlert(id);
      const columns = { resolvedBy: c.get('tenant').actor.id, resolvedAtMs: now };
      return await moveAlert(c, alert, OPEN, 'RESOLVED', { ...columns, ...onlyGiven(body) }, now);
    },
  }),
];

/** Moves an alert from a status in `from` to `status`. Throws 409 if it has another status. */
async function moveAlert(
  c: Context<AppContext>,
  alert: AlertRow,
  from: readonly AlertStatus[],
  status: 'ACKNOWLEDGED' | 'RESOLVED',
  columns: Partial<AlertRow>,
  now: number,
): Promise<AlertRecord> {
  const { id } = alert;
  const { note } = columns;
  const event = status === 'RESOLVED' ? 'alert.resolved' : 'alert.acknowledged';
  const audit = auditEntry(c, event, { type: 'ALERT', id }, note === undefined ? {} : { note });
  const { organizationId } = c.get('tenant');
  const changed = { ...columns, status };
  if (!(await changeAlert(c.env.DB, { id, organizationId }, from, changed, audit, now)))
    throw wrongState(await requireAlert(c, id), from);
  return alertRecordOf(await requireAlert(c, id));
}

async function changeRule(c: Context<AppContext>, rule: AlertRuleRow, change: AlertChange) {
  requireOnly(
    change,
    Object.keys(alertChange.shape).filter((name) => name !== 'note'),
  );
  const { note: _none, ...fields } = change;
  await requireMembers(c, fields.mailTo);
  const given = onlyGiven(fields);
  const next = { ...rule, ...given };
  if (!isWhole(next)) throw invalidBody('threshold: required unless operator is ABSENT');
  if (!waitsForAbsence(next)) throw invalidBody('forSeconds: must be at least 1 when operator is ABSENT');
  const { operator } = next;
  const threshold = operator === 'ABSENT' ? null : next.threshold;
  // Operator and threshold are always written together, because two concurrent changes of one of them could
  // otherwise store an operator without the threshold that it needs.
  const isCompared = change.operator !== undefined || change.threshold !== undefined;
  const columns = isCompared ? { ...given, operator, threshold } : given;
  const sites = await sitesOf(c, rule);
  const audit = auditEntry(c, 'alert_rule.updated', { type: 'ALERT_RULE', id: rule.id }, given);
  const changed = await changeAlertRule(c.env.DB, rule, columns, { sites }, audit, Date.now());
  if (changed === 'gone') throw notFound();
  await announce(c, changed.change);
  return ruleRecordOf(changed.row);
}

/** Throws unless each of them is a member, who may get mails about the organization. */
async function requireMembers(c: Context<AppContext>, ids: readonly string[] = []): Promise<void> {
  const known = await membersAmong(c.env.DB, c.get('tenant').organizationId, ids);
  const strangers = ids.flatMap((id, index) =>
    known.has(id) ? [] : [`mailTo.${index}: must be the userId of a member: list the members`],
  );
  if (strangers.length > 0) throw invalidBody(...strangers);
}

/** Returns the ids of the Sites that evaluate a rule, or 'all'; none when its device has no plant. */
async function sitesOf(
  c: Context<AppContext>,
  { plantId, deviceId }: { plantId?: string | null | undefined; deviceId?: string | null | undefined },
): Promise<'all' | string[]> {
  if (plantId) return [(await requirePlant(c, plantId)).id];
  if (!deviceId) return 'all';
  const { plantId: own } = await requireDevice(c, deviceId);
  return own === null ? [] : [own];
}

/** Returns the fields that are not undefined. */
function onlyGiven<Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };
}

async function requireAlert(c: Context<AppContext>, id: string): Promise<AlertRow> {
  const alert = await findAlert(c.env.DB, c.get('tenant'), id);
  if (!alert) throw notFound();
  return alert;
}

function requireOnly(change: AlertChange, names: readonly string[]): void {
  const other = Object.keys(change).find((name) => !names.includes(name));
  if (other !== undefined)
    throw invalidBody(`${other}: cannot be changed here: send only ${names.join(', ')}`);
}

function notFound(): ApiError {
  return new ApiError('NOT_FOUND', 'No alert or alert rule with this id is visible to you: list them');
}

function wrongState({ status }: AlertRow, from: readonly AlertStatus[]): ApiError {
  return conflict(`The alert is ${status}: for this it must be ${from.join(' or ')}`);
}
