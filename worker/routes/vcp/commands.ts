/** Commands of partners over HTTPS [C-13.5]: the same pipeline as over AMQP, answered with the acknowledgement. */
import { objectNamed } from '../../../durable-objects/object-id.ts';
import { commandAnswer, publishRequest } from '../../../protocol/rest-publish.ts';
import { isEmergencyKey } from '../../../protocol/routing-keys.ts';
import { requireSite } from '../../auth/access.ts';
import { requireKeyRate, type Who } from '../../auth/door.ts';
import { route } from '../../route.ts';
import { publishRefused } from './publish-refusal.ts';
import { siteParameters } from './vcp-read.ts';

const CONNECTS: Who = { door: 'api-key', scope: 'vcp:connect', isUncounted: true };
export const PUBLISH_EXAMPLE = {
  routingKey: 'acme.command.site-setpoint',
  message:
    '{"version":"1.1","messageId":"3f2c7a52-3f5b-4b8e-9a55-0d1e2f3a4b5c","timestamp":"2026-01-15T10:00:00.000Z","source":"acme-trader","siteId":"a1b2c3d4-0000-4000-8000-000000000001","payload":{"type":"POWER","targetValueKw":20,"direction":"IMPORT","includeConsumption":true,"priority":"NORMAL","validFrom":"2026-01-15T10:00:00.000Z"}}',
};

export const publishRoutes = [
  route('POST /api/v1/vcp/sites/{siteId}/commands', {
    summary: 'Send a command to a site',
    who: CONNECTS,
    callers: 'The key also needs the scope that publishes the command over AMQP.',
    params: siteParameters,
    body: publishRequest,
    examples: { body: PUBLISH_EXAMPLE },
    answer: {
      description:
        'The acknowledgement of the command, which the site has recorded; its events come as after a publish over AMQP. After a 503 send the same bytes again: `repeated` says that the command was there already',
      body: commandAnswer,
    },
    errors: ['SITE_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { siteId }, body: { routingKey, message } }) => {
      // An emergency is never refused for a rate.
      if (!isEmergencyKey(routingKey)) await requireKeyRate(c, c.get('apiKey'));
      await requireSite(c, siteId);
      const vhost = objectNamed(c.env, 'VHOST', c.get('apiKey').id);
      const answer = await vhost.publishOverHttps(siteId.toLowerCase(), routingKey, message);
      if ('refused' in answer) throw publishRefused(answer);
      return answer;
    },
  }),
];
