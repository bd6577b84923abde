/** What an API key does now, for the ORG_ADMIN of its organization. */
import { keyStatus } from '../../protocol/key-status.ts';
import { ApiError } from '../http/error-response.ts';
import { idParameter } from '../http/query.ts';
import { findKeyOf } from '../registry/api-keys.ts';
import { route } from '../route.ts';

export const apiKeyStatusRoutes = [
  route('GET /api/v1/partner/api-keys/{id}/status', {
    summary: 'See what an API key does now',
    who: { door: 'member', role: 'ORG_ADMIN', isHeaderNeeded: true },
    params: idParameter,
    answer: {
      description:
        'Its AMQP connections, its queues, and the commands that were last rejected, newest first. All are empty for a key that has ended, or has no broker scopes',
      body: keyStatus,
    },
    errors: ['API_KEY_NOT_FOUND'],
    handler: async (c, { params: { id } }) => {
      const found = await findKeyOf(c.env.DB, c.get('tenant').organizationId, id);
      if (!found)
        throw new ApiError(
          'API_KEY_NOT_FOUND',
          'The organization has no API key with this id: list its keys',
        );
      const status = await c.env.VHOST.get(c.env.VHOST.idFromName(id)).readStatus();
      return status ?? { connections: [], queues: [], lastRejections: [] };
    },
  }),
];
