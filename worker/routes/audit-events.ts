/**
 * Audit events of an organization: what members, API keys, the operator and the platform did to it, logins, and
 * accepted and rejected connections [C-8.4].
 */
import * as z from 'zod';
import { auditPage } from '../../protocol/audit.ts';
import { AUDIT_EVENTS } from '../../protocol/audit-names.ts';
import { auditCursorOf, auditEventOf, pageAuditEvents } from '../../registry/audit.ts';
import { longPageOf } from '../http/long-page.ts';
import { instantParameter, longPageParameters, requireRange } from '../http/query.ts';
import { route } from '../route.ts';

export const auditRoutes = [
  route('GET /api/v1/audit-events', {
    summary: 'List the audit events of the organization',
    who: { door: 'member', role: 'ADMIN' },
    query: z.object({
      ...longPageParameters,
      event: z.enum(AUDIT_EVENTS).optional(),
      actor: z.string().min(1).max(256).optional(),
      from: instantParameter.optional(),
      to: instantParameter.optional(),
    }),
    answer: {
      description:
        'A page of audit events, newest first; send `meta.next` as `before` for the next one. With filters, `meta.total` ends at 10 001',
      body: auditPage,
    },
    handler: async (c, { query }) => {
      const { from, to } = query;
      if (from !== undefined && to !== undefined) requireRange(from, to);
      const found = await pageAuditEvents(c.env.DB, c.get('tenant').organizationId, query, query);
      return longPageOf(found, query, auditEventOf, auditCursorOf);
    },
  }),
];
