/**
 * The operator's routes for a D1 that time travel has set back [C-14.8]: save the audit events before, and apply afterwards
 * what happened since. `npm run sitewire -- admin save-audit` and `after-restore` call them.
 */
import type { Context } from 'hono';
import * as z from 'zod';
import { EVENTS_PER_REQUEST, savedEvent } from '../../protocol/after-restore.ts';
import { auditPage } from '../../protocol/audit.ts';
import { instant, parseInstant, uuid } from '../../protocol/ids.ts';
import { endAccess, putBack, raiseVersions } from '../../registry/after-restore.ts';
import { auditCursorOf, auditEventOf, pageAuditEvents } from '../../registry/audit.ts';
import { auditEntryOf } from '../auth/audit-entry.ts';
import type { AppContext } from '../env.ts';
import { longPageOf } from '../http/long-page.ts';
import { instantParameter, longPageParameters } from '../http/query.ts';
import { announceLater } from '../lifecycle/registry-change.ts';
import { applyEvent } from '../lifecycle/restored-events.ts';
import { applyObjects, type Repair, type RepairLine } from '../lifecycle/restored-objects.ts';
import { recheckStreams } from '../lifecycle/watches.ts';
import { route } from '../route.ts';

const OPERATOR = { door: 'operator' } as const;
/** The fields that a step needs. */
const NEEDS = { 'end-access': 'since', 'put-back': 'events', apply: 'events' } as const;
const step = z
  .strictObject({
    step: z.enum(['end-access', 'put-back', 'apply', 'ask-objects', 'raise-versions']),
    since: instant.optional(),
    events: z.array(savedEvent).min(1).max(EVENTS_PER_REQUEST).optional(),
    after: uuid.optional(),
  })
  .check(({ value, issues }) => {
    const needed = value.step in NEEDS ? NEEDS[value.step as keyof typeof NEEDS] : undefined;
    if (needed && value[needed] === undefined)
      issues.push({
        code: 'custom',
        input: value,
        path: [needed],
        message: `required for the step ${value.step}`,
      });
  });
type Step = z.infer<typeof step>;

interface Done {
  count: number;
  lines: RepairLine[];
  next: string | null;
}

export const afterRestoreRoutes = [
  route('GET /api/v1/platform/audit-events', {
    summary: 'Read the audit events of one organization, or those of none',
    who: OPERATOR,
    query: z.object({
      ...longPageParameters,
      organizationId: uuid.optional(),
      from: instantParameter,
    }),
    answer: {
      description:
        'A page of audit events, newest first. Without `organizationId`: those that belong to none',
      body: auditPage,
    },
    handler: async (c, { query }) => {
      const found = await pageAuditEvents(c.env.DB, query.organizationId ?? null, query, query);
      return longPageOf(found, query, auditEventOf, auditCursorOf);
    },
  }),
  route('POST /api/v1/platform/after-restore', {
    summary: 'Apply again to a restored D1 what happened after the time to which it was restored',
    who: OPERATOR,
    body: step,
    examples: { body: { step: 'ask-objects' } },
    answer: {
      description:
        'What the step did and what it could not do. If `next` is not null, send the step again; ask-objects with `next` as `after`',
      body: z.strictObject({
        count: z.int(),
        lines: z.array(z.strictObject({ isApplied: z.boolean(), text: z.string() })),
        next: z.string().nullable(),
      }),
    },
    handler: (c, { body }) => take(c, body),
  }),
];

async function take(
  c: Context<AppContext>,
  { step: name, since = '', events = [], after = '' }: Step,
): Promise<Done> {
  const { DB } = c.env;
  const now = Date.now();
  switch (name) {
    case 'end-access': {
      const ended = await endAccess(DB, parseInstant(since) ?? 0, now);
      for (const id of ended.userIds) recheckStreams(c, { kind: 'user', id });
      for (const id of ended.supportIds) recheckStreams(c, { kind: 'support', id });
      const lines = ended.invitations.map(({ email, organizationId }) => ({
        isApplied: true,
        text: `invitation of ${email} to organization ${organizationId}: revoked, invite again if it was not accepted`,
      }));
      return { count: ended.sessions, lines, next: ended.isMore ? 'more' : null };
    }
    case 'put-back':
      return { count: await putBack(DB, events), lines: [], next: null };
    case 'apply': {
      const lines: RepairLine[] = [];
      const repair = repairOf(c, now);
      for (const event of events) {
        const line = await applyEvent(repair, event);
        if (line) lines.push(line);
      }
      return { count: lines.length, lines, next: null };
    }
    case 'ask-objects': {
      const { lines, next } = await applyObjects(repairOf(c, now), after);
      return { count: lines.length, lines, next };
    }
    case 'raise-versions':
      return { count: await raiseVersions(DB), lines: [], next: null };
  }
}

function repairOf(c: Context<AppContext>, now: number): Repair {
  return {
    env: c.env,
    now,
    audit: (organizationId, event, target, details = {}) =>
      auditEntryOf(c, { organizationId, actor: c.get('operator') }, event, target, {
        ...details,
        reason: 'D1 was restored',
      }),
    announce: (change) => announceLater(c, change),
    recheckUser: (id) => recheckStreams(c, { kind: 'user', id }),
  };
}
