/**
 * The operator's routes to back up and restore the object of one plant or one API key: raise a fence, read or stage the
 * parts, restore, and lower the fence. `npm run sitewire -- admin backup` and `restore` call them.
 */
import type { Context } from 'hono';
import * as z from 'zod';
import { MAX_PART_CHARS } from '../../durable-objects/backup-rpc.ts';
import { formatInstant, uuid } from '../../protocol/ids.ts';
import { writeAudit } from '../../registry/audit.ts';
import { findOwner } from '../../registry/sealed.ts';
import { auditEntryOf } from '../auth/audit-entry.ts';
import type { AppContext } from '../env.ts';
import { ApiError, conflict, invalidBody } from '../http/error-response.ts';
import { type BackupObject, lowerFence, objectOf, raiseFence, settleDevices } from '../lifecycle/backup.ts';
import { route } from '../route.ts';

const OPERATOR = { door: 'operator' } as const;
const MINUTE_MS = 60_000;
const MAX_PARTS = 100_000;

const named = { object: z.enum(['plant', 'key']), id: uuid };
const fenced = { ...named, fence: uuid };
const EXAMPLE = { object: 'plant', id: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10' } as const;
const FENCED = { ...EXAMPLE, fence: '6f2d8a1e-94c7-4d0b-8a35-1e7c9b402d66' } as const;

const place = z.strictObject({
  table: z.int().min(0),
  key: z.array(z.union([z.string(), z.number(), z.null()])).nullable(),
  rows: z.int().min(0),
});

export const backupRoutes = [
  route('POST /api/v1/platform/backups/fence', {
    summary: 'Raise a fence before a backup or a restore of a plant or an API key',
    who: OPERATOR,
    body: z.strictObject({ ...named, minutes: z.int().min(1).max(60).default(15) }),
    examples: { body: EXAMPLE },
    answer: {
      status: 201,
      description:
        'The fence. Until it is lowered or its time is over, the plant or key refuses commands and connections with 503, and its data does not change',
      body: z.strictObject({ fence: z.string(), until: z.string() }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { body: { object, id, minutes } }) => {
      await requireObject(c, { object, id });
      const fence = { id: crypto.randomUUID(), untilMs: Date.now() + minutes * MINUTE_MS };
      if (!(await raiseFence(c.env, { object, id }, fence)))
        throw conflict('Another backup or restore is under way: wait until it has ended');
      return { fence: fence.id, until: formatInstant(fence.untilMs) };
    },
  }),
  route('POST /api/v1/platform/backups/read', {
    summary: 'Read the next part of a backup',
    who: OPERATOR,
    body: z.strictObject({ ...fenced, after: z.string().max(4_096).optional() }),
    examples: { body: FENCED },
    answer: {
      description:
        'Lines of JSON. Send `next` as `after` for the next part; null: this was the last one. Secrets in it are encrypted by DATA_KEYS, commands and telemetry are not',
      body: z.strictObject({ text: z.string(), next: z.string().nullable() }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { body: { fence, after, ...one } }) => {
      const from = after === undefined ? null : placeOf(after);
      const organizationId = await requireObject(c, one);
      await requireFence(c, one, fence);
      const part = await objectOf(c.env, one).readBackup(one.id, fence, from);
      if ('refused' in part) throw invalidBody(`after: ${part.refused}`);
      if (!from) await audit(c, organizationId, one, 'backed_up');
      const { text, next } = part;
      return { text, next: next && JSON.stringify(next) };
    },
  }),
  route('POST /api/v1/platform/backups/stage', {
    summary: 'Store a part of a backup that is to be restored',
    who: OPERATOR,
    body: z.strictObject({
      ...fenced,
      part: z.int().min(0).max(MAX_PARTS),
      text: z.string().min(1).max(MAX_PART_CHARS),
    }),
    examples: { body: { ...FENCED, part: 0, text: '{"sitewire":"backup"}\n' } },
    answer: {
      description: 'The part is stored. Parts are numbered from 0 and may end within a line',
      body: z.strictObject({ part: z.int() }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { body: { fence, part, text, ...one } }) => {
      await requireObject(c, one);
      await requireFence(c, one, fence);
      const answer = await objectOf(c.env, one).stageBackup(fence, part, text);
      if (answer) throw cannotRestore(answer.refused);
      return { part };
    },
  }),
  route('POST /api/v1/platform/backups/restore', {
    summary: 'Replace the data of a plant or an API key with the stored parts, and lower the fence',
    who: OPERATOR,
    body: z.strictObject(fenced),
    examples: { body: FENCED },
    answer: {
      description:
        'The number of restored rows, and of devices that were deleted, suspended or decommissioned after the backup and are so again. A refused backup changes nothing',
      body: z.strictObject({ rows: z.int(), changedDevices: z.int() }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { body: { fence, ...one } }) => {
      const organizationId = await requireObject(c, one);
      await requireFence(c, one, fence);
      const restored = await objectOf(c.env, one).restoreBackup(one.id, fence);
      if ('refused' in restored) throw cannotRestore(restored.refused);
      await audit(c, organizationId, one, 'restored', { rows: restored.rows });
      await lowerFence(c.env, one, fence);
      const changedDevices =
        one.object === 'plant' ? await settleDevices(c.env, one.id, restored.deviceIds) : 0;
      return { rows: restored.rows, changedDevices };
    },
  }),
  route('POST /api/v1/platform/backups/end', {
    summary: 'Lower the fence of a backup',
    who: OPERATOR,
    body: z.strictObject(fenced),
    examples: { body: FENCED },
    answer: {
      description: 'The fence is lowered; clients and devices can connect again',
      body: z.strictObject({ ended: z.literal(true) }),
    },
    errors: ['NOT_FOUND'],
    handler: async (c, { body: { fence, ...one } }) => {
      await requireObject(c, one);
      await lowerFence(c.env, one, fence);
      return { ended: true as const };
    },
  }),
];

/** Throws 404 for a plant that D1 does not have, and for a key that was revoked. Returns its organization. */
async function requireObject(c: Context<AppContext>, { object, id }: BackupObject): Promise<string> {
  const organizationId = await findOwner(c.env.DB, object, id);
  if (organizationId === undefined)
    throw new ApiError(
      'NOT_FOUND',
      `No ${object} has this id${object === 'key' ? ', or it was revoked' : ''}`,
    );
  return organizationId;
}

async function requireFence(c: Context<AppContext>, one: BackupObject, fence: string): Promise<void> {
  const up = await objectOf(c.env, one).fence();
  if (up?.id !== fence || up.untilMs <= Date.now())
    throw conflict(
      'This fence is not up: it was lowered, or its time is over. Raise a new one and begin again',
    );
}

async function audit(
  c: Context<AppContext>,
  organizationId: string,
  one: BackupObject,
  what: 'backed_up' | 'restored',
  details: Record<string, unknown> = {},
): Promise<void> {
  const inOrganization = { organizationId, actor: c.get('operator') };
  const [noun, type] =
    one.object === 'plant' ? (['plant', 'PLANT'] as const) : (['api_key', 'API_KEY'] as const);
  const entry = auditEntryOf(c, inOrganization, `${noun}.${what}`, { type, id: one.id }, details);
  await writeAudit(c.env.DB, entry, Date.now());
}

function cannotRestore(reason: string): ApiError {
  return invalidBody(`The backup cannot be restored: ${reason}`);
}

function placeOf(after: string) {
  try {
    return place.parse(JSON.parse(after));
  } catch {
    throw invalidBody('after: must be the `next` of the previous part');
  }
}
