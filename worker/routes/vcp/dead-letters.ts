/** The dead letters of a key: read, put back and deleted by its partner, or by an ADMIN of its organization [C-12.5]. */

import type { Context } from 'hono';
import * as z from 'zod';
import { objectNamed } from '../../../durable-objects/object-id.ts';
import {
  DEAD_LETTER_ID,
  type DeadLetterRefusal,
  deadLetter,
  requeued,
} from '../../../protocol/dead-letter.ts';
import { uuid } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { findKeyOf } from '../../../registry/api-keys.ts';
import { writeAudit } from '../../../registry/audit.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { ApiError, conflict, forbidden, unauthorized, unavailable } from '../../http/error-response.ts';
import { integerParameter, invalidParameter } from '../../http/query.ts';
import { route } from '../../route.ts';

const WHO: Who = { door: 'member', role: 'ADMIN', scope: 'vcp:read' };
/** A member names the key; a partner's key has only its own. */
const keyParameter = { keyId: uuid.optional() };
const idOfPath = z.object({ id: z.string() });
const RETRY_SECONDS = 5;

export const deadLetterRoutes = [
  route('GET /api/v1/vcp/dead-letters', {
    summary: 'List dead letters',
    who: WHO,
    query: z.object({
      after: z.string().regex(DEAD_LETTER_ID, 'must be `next` of an earlier page').optional(),
      limit: integerParameter(1, LIMIT.listRows, LIMIT.listRowsDefault),
      ...keyParameter,
    }),
    answer: {
      description: 'Dead letters, oldest first',
      body: z.strictObject({ deadLetters: z.array(deadLetter), next: z.string().nullable() }),
    },
    errors: ['API_KEY_NOT_FOUND'],
    handler: async (c, { query: { after, limit, keyId } }) => {
      const id = await keyOf(c, keyId);
      const answer = await vhostOf(c, id).listDeadLetters(after ?? null, limit);
      if ('refused' in answer) throw refused(answer);
      return answer;
    },
  }),
  route('POST /api/v1/vcp/dead-letters/{id}/requeue', {
    summary: 'Publish a dead letter again',
    who: WHO,
    params: idOfPath,
    query: z.object(keyParameter),
    answer: {
      description:
        'QUEUED: an event is back in its queue. RECORDED: its Site has recorded the command. DEAD_LETTERED: it is malformed, and a dead letter again',
      body: requeued,
    },
    errors: ['API_KEY_NOT_FOUND', 'NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id }, query }) => {
      const keyId = await keyOf(c, query.keyId);
      const answer = await vhostOf(c, keyId).requeueDeadLetter(id);
      if ('refused' in answer) throw refused(answer);
      const { outcome } = answer;
      await note(c, 'api_key.dead_letter_requeued', keyId, { deadLetter: id, outcome });
      return answer;
    },
  }),
  route('DELETE /api/v1/vcp/dead-letters/{id}', {
    summary: 'Delete a dead letter',
    who: WHO,
    params: idOfPath,
    query: z.object(keyParameter),
    answer: { description: 'The id of the deleted dead letter', body: z.strictObject({ id: z.string() }) },
    errors: ['API_KEY_NOT_FOUND', 'NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { id }, query }) => {
      const keyId = await keyOf(c, query.keyId);
      const answer = await vhostOf(c, keyId).deleteDeadLetter(id);
      if (answer !== 'deleted') throw refused(answer);
      await note(c, 'api_key.dead_letter_deleted', keyId, { deadLetter: id });
      return { id };
    },
  }),
];

function vhostOf(c: Context<AppContext>, keyId: string) {
  return objectNamed(c.env, 'VHOST', keyId);
}

/** The id of the key: the caller's own, or the one that a member names. */
async function keyOf(c: Context<AppContext>, named: string | undefined): Promise<string> {
  const { organizationId, actor } = c.get('tenant');
  if (actor.type === 'API_KEY') {
    if (named !== undefined && named !== actor.id) throw keyNotFound();
    return actor.id;
  }
  if (named === undefined) throw invalidParameter('keyId: is required: the id of an API key');
  if (!(await findKeyOf(c.env.DB, organizationId, named))) throw keyNotFound();
  return named;
}

function keyNotFound(): ApiError {
  return new ApiError('API_KEY_NOT_FOUND', 'No API key with this keyId is visible to you: list your keys');
}

async function note(
  c: Context<AppContext>,
  event: 'api_key.dead_letter_requeued' | 'api_key.dead_letter_deleted',
  keyId: string,
  details: Record<string, unknown>,
): Promise<void> {
  await writeAudit(c.env.DB, auditEntry(c, event, { type: 'API_KEY', id: keyId }, details), Date.now());
}

function refused({ refused: why, text = '' }: DeadLetterRefusal): ApiError {
  switch (why) {
    case 'ended':
      return unauthorized('The API key was revoked or has expired, and its dead letters are deleted');
    case 'absent':
      return new ApiError('NOT_FOUND', 'No dead letter has this id: list them again');
    case 'held':
      return conflict('A client of the dead-letter queue has this message: settle it there');
    case 'forbidden':
      return forbidden(text);
    case 'unstored':
      return unavailable('The Site did not record it in time: try again', RETRY_SECONDS);
  }
}
