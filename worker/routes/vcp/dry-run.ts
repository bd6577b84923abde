/** Dry runs: what a command would be answered, by the same pipeline, without an effect [C-13.1]. */

import type { Context } from 'hono';
import type { SiteStub } from '../../../durable-objects/env.ts';
import { objectNamed } from '../../../durable-objects/object-id.ts';
import type { Submission } from '../../../durable-objects/rpc.ts';
import {
  type DryRunAnswer,
  type DryRunCommand,
  dryRunAnswer,
  dryRunAnswers,
  dryRunRequest,
} from '../../../protocol/dry-run.ts';
import { parseEnvelope } from '../../../protocol/envelope.ts';
import { parseInstant } from '../../../protocol/ids.ts';
import { personDryRunRequest } from '../../../protocol/rest-publish.ts';
import { commandFamily } from '../../../protocol/routing-keys.ts';
import { requirePlant, requireSite } from '../../auth/access.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { conflict, forbidden, invalidBody, unavailable } from '../../http/error-response.ts';
import { idParameter } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { count } from '../../metrics/counts.ts';
import { route } from '../../route.ts';
import { OPERATOR, personSubmission, requireRateOf } from '../fleet/plant-commands.ts';
import { PUBLISH_EXAMPLE } from './commands.ts';
import { publishRefused } from './publish-refusal.ts';
import { siteParameters } from './vcp-read.ts';

const ASKER: Who = { door: 'key-or-member', role: 'OPERATOR' };
const ANSWER =
  'what the command would be answered, which check decides, the nearest values that are accepted, and what would be sent to the plant. Nothing is stored, and the messageId stays free';
/** The end of the time that the batch has. */
const ANSWER_MS = 8_000;
const RETRY_SECONDS = 5;

export const dryRunRoutes = [
  route('POST /api/v1/vcp/sites/{siteId}/commands/dry-run', {
    summary: 'Ask what a command to a site would do',
    who: ASKER,
    callers:
      'Needs an API key with the scope that publishes the command over AMQP, or a login of a member with the role OPERATOR or higher.',
    params: siteParameters,
    body: dryRunRequest,
    examples: { body: PUBLISH_EXAMPLE },
    answer: {
      description: `For one command: ${ANSWER}. For \`commands\`: the same for each, in \`results\``,
      body: dryRunAnswers,
    },
    errors: ['SITE_NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params: { siteId }, body }) => {
      const site = await requireSite(c, siteId);
      const { commands: list, routingKey = '', message = '', ignoreSignature = false } = body;
      const commands = list ?? [{ routingKey, message, ignoreSignature }];
      const places = commands.map((_command, place) => (list ? `commands[${place}].message` : 'message'));
      const texts =
        c.get('tenant').role === null
          ? await askVhost(c, siteId, commands, places)
          : await askSite(
              site,
              siteId,
              commands.map((command, place) => submissionOf(c, siteId, command, places[place])),
            );
      const answers = texts.map((text) => read(c, text));
      const [first] = answers;
      if (list || !first) return { results: answers };
      return first;
    },
  }),
  route('POST /api/v1/plants/{id}/commands/dry-run', {
    summary: 'Ask what a command to a plant would do',
    who: OPERATOR,
    params: idParameter,
    body: personDryRunRequest,
    examples: { body: { family: 'mode', payload: { mode: 'STANDARD' } } },
    answer: { description: `Shows ${ANSWER}`, body: dryRunAnswer },
    errors: ['PLANT_NOT_FOUND'],
    handler: async (c, { params, body }) => {
      await requireRateOf(c, body.family);
      const { id } = await requirePlant(c, params.id);
      const idempotencyKey = body.idempotencyKey ?? crypto.randomUUID();
      const submission = personSubmission(c, id, { ...body, idempotencyKey });
      const [text] = await askSite(siteById(c.env, id), id, [submission]);
      return read(c, text ?? notAnswered());
    },
  }),
];

/** Counts an answer by its status. */
function read(c: Context<AppContext>, text: string): DryRunAnswer {
  const answer = JSON.parse(text) as DryRunAnswer;
  count(c, `dry_runs/${answer.acknowledgement.status}`);
  return answer;
}

async function askVhost(
  c: Context<AppContext>,
  siteId: string,
  commands: DryRunCommand[],
  places: readonly string[],
): Promise<string[]> {
  const vhost = objectNamed(c.env, 'VHOST', c.get('apiKey').id);
  const answer = await vhost.dryRunOverHttps(siteId, commands);
  if (!('refused' in answer)) return answer;
  if (answer.refused === 'unstored') throw notAnswered();
  throw publishRefused(answer, places[answer.place]);
}

/** The message of a person: the login proves who sends it, so it needs no signature. */
function submissionOf(
  c: Context<AppContext>,
  siteId: string,
  { routingKey, message }: DryRunCommand,
  place = 'message',
): Submission {
  const family = commandFamily(c.get('tenant').slug, routingKey);
  if (!family.ok)
    throw forbidden(
      `Unknown routing key "${routingKey}": use for example ${c.get('tenant').slug}.command.site-setpoint`,
    );
  const envelope = parseEnvelope(message);
  if (!envelope.ok) throw invalidBody(`${place}: ${envelope.refusal}`);
  const { messageId, correlationId = null, source, timestamp, payloadText } = envelope.value;
  if (envelope.value.siteId !== siteId) throw conflict(`${place}: its siteId is not the site of the path`);
  return {
    ...{ messageId, correlationId, source, routingKey, payloadText },
    ...{ timestampMs: parseInstant(timestamp) ?? 0, family: family.value, signature: 'not-needed' },
  };
}

async function askSite(site: SiteStub, siteId: string, submissions: Submission[]): Promise<string[]> {
  const batch = { siteId, keyId: '', keyPrefix: '', partnerId: '', received: 0, seen: 0, isRepeated: false };
  return await site.dryRun({ ...batch, notAfterMs: Date.now() + ANSWER_MS, submissions }, 'member');
}

function notAnswered(): never {
  throw unavailable('The site did not answer the dry run: ask again', RETRY_SECONDS);
}
