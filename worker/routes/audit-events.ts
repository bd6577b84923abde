/** Audit events of an organization: admin actions and rejected connections [C-8.4]. */
import { z } from 'zod';
import { auditEvent } from '../../protocol/audit.ts';
import { pageOf, pageSchema } from '../../protocol/page.ts';
import { noParameters, pageParameters } from '../http/query.ts';
import { pageAuditEvents } from '../registry/audit.ts';
import { route } from '../route.ts';

export const getAuditEvents = route({
  method: 'GET',
  path: '/api/v1/audit-events',
  summary: 'List the audit events of the organization',
  who: { door: 'member', role: 'ADMIN' },
  params: noParameters,
  query: z.object({ ...pageParameters, event: z.string().min(1).max(100).optional() }),
  answer: { status: 200, description: 'A page of audit events, newest first', body: pageSchema(auditEvent) },
  errors: [],
  handler: async (c, { query }) => {
    const { rows, total } = await pageAuditEvents(
      c.env.DB,
      c.get('tenant').organizationId,
      query.event,
      query,
    );
    return pageOf(rows, total, query);
  },
});
