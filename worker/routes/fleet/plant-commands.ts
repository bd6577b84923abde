/** Commands of people to a plant [C-13.5]: the same pipeline as those of partners, which see them as the organization's. */
import type { Context } from 'hono';
import type * as z from 'zod';
import type { Submission } from '../../../durable-objects/rpc.ts';
import { derivedUuid } from '../../../durable-objects/secrets/hmac.ts';
import { commandAnswer, personCommandRequest } from '../../../protocol/rest-publish.ts';
import { type CommandFamily, commandRoutingKey } from '../../../protocol/routing-keys.ts';
import { requirePlant } from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import { requireMemberRate, type Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { unavailable } from '../../http/error-response.ts';
import { idParameter } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { route } from '../../route.ts';

/** Neither the changes of other members nor a rate may hold up an emergency: the handler counts all other commands. */
export const OPERATOR: Who = { door: 'member', role: 'OPERATOR', isUrgent: true, isUncounted: true };
/** A site that has not recorded the command by then must not record it later. */
const RECORD_MS = 9_000;
const RETRY_SECONDS = 5;

export const plantCommandRoutes = [
  route('POST /api/v1/plants/{id}/commands', {
    summary: 'Send a command to a plant',
    who: OPERATOR,
    params: idParameter,
    body: personCommandRequest,
    examples: {
      body: {
        family: 'site-setpoint',
        payload: {
          type: 'POWER',
          targetValueKw: 20,
          direction: 'IMPORT',
          includeConsumption: true,
          priority: 'HIGH',
          validFrom: '2026-01-15T10:00:00.000Z',
          validUntil: '2026-01-15T11:00:00.000Z',
        },
        idempotencyKey: 'peak-2026-01-15',
      },
    },
    answer: {
      description:
        'The acknowledgement of the command, which the site has recorded. The same `idempotencyKey` gets the same acknowledgement, with `repeated`',
      body: commandAnswer,
    },
    errors: ['PLANT_NOT_FOUND'],
    handler: async (c, { params, body: { family, payload, idempotencyKey } }) => {
      await requireRateOf(c, family);
      const { id } = await requirePlant(c, params.id);
      const now = Date.now();
      const answer = await siteById(c.env, id).submit({
        siteId: id,
        ...{ keyId: '', keyPrefix: '', partnerId: '', received: 0, seen: 0, isRepeated: false },
        notAfterMs: now + RECORD_MS,
        audit: auditEntry(c, 'plant.command_sent', { type: 'PLANT', id }, { family }),
        submissions: [{ ...personSubmission(c, id, { family, payload, idempotencyKey }), wantsResult: true }],
      });
      const [result] = answer.results ?? [];
      if (!result)
        throw unavailable(
          'The site has not recorded the command: send it again with the same idempotencyKey',
          RETRY_SECONDS,
        );
      const { acknowledgement, commandId, isRepeated } = result;
      return { acknowledgement, commandId, ...(isRepeated ? { repeated: true as const } : {}) };
    },
  }),
];

/** Counts a command of a person, or its dry run, toward their rate. An emergency is never refused for a rate. */
export async function requireRateOf(c: Context<AppContext>, family: CommandFamily): Promise<void> {
  if (family !== 'emergency') await requireMemberRate(c);
}

/** The submission of a person's command: the session proves who sends it. */
export function personSubmission(
  c: Context<AppContext>,
  plantId: string,
  { family, payload, idempotencyKey }: z.infer<typeof personCommandRequest>,
): Submission {
  const { slug, actor } = c.get('tenant');
  return {
    messageId: derivedUuid(`person|${plantId}|${idempotencyKey}`),
    correlationId: null,
    source: `user:${actor.id}`,
    timestampMs: Date.now(),
    routingKey: commandRoutingKey(slug, family),
    family,
    payloadText: JSON.stringify(payload),
    signature: 'not-needed',
  };
}
