/** Audit events of an organization: admin actions, logins and rejected connections [C-8.4]. */
import { z } from 'zod';
import { AUDIT_EVENTS, auditPage } from '../../protocol/audit.ts';
import { pageOf } from '../../protocol/page.ts';
import { instantParameter, invalidParameter, pageParameters, requireRange } from '../http/query.ts';
import { AUDIT_ROWS_COUNTED, type AuditCursor, auditEventOf, pageAuditEvents } from '../registry/audit.ts';
import { route } from '../route.ts';

const CURSOR = /^(\d{1,15})_([0-9a-f-]{36})$/;

export const auditRoutes = [
  route('GET /api/v1/audit-events', {
    summary: 'List the audit events of the organization',
    who: { door: 'member', role: 'ADMIN' },
    query: z.object({
      ...pageParameters,
      event: z.enum(AUDIT_EVENTS).optional(),
      actor: z.string().min(1).max(256).optional(),
      from: instantParameter.optional(),
      to: instantParameter.optional(),
      before: z.string().regex(CURSOR, 'must be meta.next of an answer').optional(),
    }),
    answer: {
      description:
        'A page of audit events, newest first; send `meta.next` as `before` for the next one. `meta.total` ends at 10 001',
      body: auditPage,
    },
    handler: async (c, { query }) => {
      const { page, limit, from, to, before, ...filters } = query;
      if (from !== undefined && to !== undefined) requireRange(from, to);
      if (before !== undefined && page !== 1) throw invalidParameter('page: omit it together with before');
      if (page * limit > AUDIT_ROWS_COUNTED)
        throw invalidParameter(`page: the first ${AUDIT_ROWS_COUNTED} rows only; use before for older ones`);
      const { organizationId } = c.get('tenant');
      const wanted = { ...filters, from, to, before: before === undefined ? undefined : cursorOf(before) };
      const found = await pageAuditEvents(c.env.DB, organizationId, wanted, { page, limit });
      const last = found.rows.length < limit ? undefined : found.rows.at(-1);
      const next = last ? `${last.createdAtMs}_${last.id}` : null;
      const { data, meta } = pageOf(found, { page, limit }, auditEventOf);
      return { data, meta: { ...meta, next } };
    },
  }),
];

function cursorOf(text: string): AuditCursor {
  const [, atMs, id = ''] = CURSOR.exec(text) ?? [];
  return { atMs: Number(atMs), id };
}
