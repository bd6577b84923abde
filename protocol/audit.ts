/** Audit events as admins read them (spec: Audit events; [C-8.4]). */
import { z } from 'zod';
import { LIMIT } from './limits.ts';
import { pageMeta } from './page.ts';

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

/** `next`: what the request for the next page sends as `before`; null on the last page. */
export const auditPage = z.strictObject({
  data: z.array(auditEvent).max(LIMIT.listRows),
  meta: pageMeta(LIMIT.listRows).extend({ next: z.string().nullable() }),
});
