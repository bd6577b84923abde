/** Audit events as admins read them (spec: Audit events; [C-8.4]). */
import * as z from 'zod';
import { longPageSchema } from './page.ts';

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
  /** How often the event happened: equal events of a minute share a row. */
  count: z.int().min(1),
  createdAt: z.string(),
});
export type AuditEvent = z.infer<typeof auditEvent>;

export const auditPage = longPageSchema(auditEvent);
