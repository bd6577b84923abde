/** What an API key does now, and whose commands it reads, for the ORG_ADMIN of its organization. */

import type { Context } from 'hono';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { apiKeyPatch, apiKeyRecord } from '../../protocol/api-key-record.ts';
import { keyStatus } from '../../protocol/key-status.ts';
import { apiKeyRecordOf, changeSight, findKeyOf, type KeyWithCreator } from '../../registry/api-keys.ts';
import { auditEntry } from '../auth/audit-entry.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { idParameter } from '../http/query.ts';
import { announce } from '../lifecycle/registry-change.ts';
import { route } from '../route.ts';

export const ORG_ADMIN = { door: 'member', role: 'ORG_ADMIN', isHeaderNeeded: true } as const;

export const apiKeyStatusRoutes = [
  route('GET /api/v1/partner/api-keys/{id}/status', {
    summary: 'See what an API key does now',
    who: ORG_ADMIN,
    params: idParameter,
    answer: {
      description:
        'Its AMQP connections, its queues, and the commands that were last rejected, newest first. All are empty for a key that has ended, or has no broker scopes',
      body: keyStatus,
    },
    errors: ['API_KEY_NOT_FOUND'],
    handler: async (c, { params: { id } }) => {
      await requireKeyOf(c, id);
      const status = await objectNamed(c.env, 'VHOST', id).readStatus();
      return status ?? { connections: [], queues: [], lastRejections: [] };
    },
  }),
  route('PATCH /api/v1/partner/api-keys/{id}', {
    summary: 'Change whose commands an API key reads',
    who: ORG_ADMIN,
    params: idParameter,
    body: apiKeyPatch,
    examples: { body: { sees: 'ORGANIZATION' } },
    answer: { description: 'The API key. The change has an effect at once', body: apiKeyRecord },
    errors: ['API_KEY_NOT_FOUND'],
    handler: async (c, { params: { id }, body: { sees } }) => {
      const { row } = await requireKeyOf(c, id);
      const details = { sees, keyPrefix: row.keyPrefix };
      const audit = auditEntry(c, 'api_key.updated', { type: 'API_KEY', id }, details);
      const change = await changeSight(c.env.DB, row, sees, audit, Date.now());
      if (change !== 'gone') await announce(c, change);
      return apiKeyRecordOf(await requireKeyOf(c, id), Date.now());
    },
  }),
];

export async function requireKeyOf(c: Context<AppContext>, id: string): Promise<KeyWithCreator> {
  const found = await findKeyOf(c.env.DB, c.get('tenant').organizationId, id);
  if (!found)
    throw new ApiError(
      'API_KEY_NOT_FOUND',
      'The organization has no API key with this id: list its API keys',
    );
  return found;
}
