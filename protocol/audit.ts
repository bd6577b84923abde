/** Audit events as admins read them (spec: Audit events; [C-8.4]). */
import { z } from 'zod';

/** Every event of the audit log. */
export const AUDIT_EVENTS = [
  'alert.acknowledged',
  'alert.resolved',
  'alert.updated',
  'alert_rule.created',
  'alert_rule.updated',
  'api_key.bundle_acknowledged',
  'api_key.created',
  'api_key.revoked',
  'api_key.test_connection',
  'device.certificate_issued',
  'device.command_sent',
  'device.deleted',
  'device.moved',
  'device.provisioned',
  'device.reactivated',
  'device.registered',
  'device.revoked',
  'device.secret_rotated',
  'device.suspended',
  'device.token_issued',
  'device.updated',
  'mail.undeliverable',
  'member.invitation_revoked',
  'member.invited',
  'member.joined',
  'member.left',
  'member.removed',
  'member.role_changed',
  'organization.created',
  'organization.limits_changed',
  'organization.updated',
  'partner.connected',
  'partner.connection_refused',
  'plant.config_updated',
  'plant.created',
  'plant.deleted',
  'plant.updated',
  'session.reuse_detected',
  'session.revoked',
  'sub_device.created',
  'sub_device.deleted',
  'sub_device.updated',
  'user.created',
  'user.email_changed',
  'user.email_verified',
  'user.locked',
  'user.logged_in',
  'user.login_failed',
  'user.password_changed',
  'user.password_reset',
] as const;
export type AuditEventName = (typeof AUDIT_EVENTS)[number];

/** Details of one row: at most this many characters of JSON [C-14.3]. */
export const AUDIT_DETAILS_CHARS = 1_024;
const MAX_VALUE_CHARS = 200;

/**
 * Details that fit into a row: a long value becomes its length, and where all of them are still too long only the names
 * of the fields stay.
 */
export function boundedDetails(details: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const short = Object.fromEntries(Object.entries(details).map(([name, value]) => [name, shortened(value)]));
  if (JSON.stringify(short).length <= AUDIT_DETAILS_CHARS) return short;
  const fields: string[] = [];
  for (const name of Object.keys(details)) {
    if (JSON.stringify({ fields: [...fields, name], more: true }).length > AUDIT_DETAILS_CHARS)
      return { fields, more: true };
    fields.push(name);
  }
  return { fields };
}

function shortened(value: unknown): unknown {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shortened(inner)]));
  const text = JSON.stringify(value) ?? 'null';
  return text.length <= MAX_VALUE_CHARS ? value : `${text.length} characters`;
}

export const auditEvent = z.strictObject({
  id: z.string(),
  event: z.string(),
  actor: z.strictObject({
    type: z.enum(['USER', 'API_KEY', 'DEVICE', 'SYSTEM']),
    id: z.string(),
    name: z.string().optional(),
  }),
  target: z.strictObject({ type: z.string(), id: z.string() }).nullable(),
  address: z.string().nullable(),
  outcome: z.enum(['SUCCESS', 'FAILURE']),
  details: z.record(z.string(), z.unknown()),
  /** How often the event happened: repeated refusals share a row. */
  count: z.int().min(1),
  createdAt: z.string(),
});
export type AuditEvent = z.infer<typeof auditEvent>;
