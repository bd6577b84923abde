/** Audit events of an organization: admin actions and rejected connections [C-8.4]. */
import { z } from 'zod';
import { auditEvent } from '../../protocol/audit.ts';
import { pageOf, pageSchema } from '../../protocol/page.ts';
import { pageParameters } from '../http/query.ts';
import { auditEventOf, pageAuditEvents } from '../registry/audit.ts';
import { route } from '../route.ts';

export const auditRoutes = [
  route('GET /api/v1/audit-events', {
    summary: 'List the audit events of the organization',
    who: { door: 'member', role: 'ADMIN' },
    query: z.object({ ...pageParameters, event: z.string().min(1).max(100).optional() }),
    answer: { description: 'A page of audit events, newest first', body: pageSchema(auditEvent) },
    handler: async (c, { query }) => {
      const { organizationId } = c.get('tenant');
      const events = await pageAuditEvents(c.env.DB, organizationId, query.event, query);
      return pageOf(events, query, auditEventOf);
    },
  }),
];
