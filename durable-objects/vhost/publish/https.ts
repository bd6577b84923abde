/** A publish over HTTPS [C-13.5]: the same checks and the same pipeline as over AMQP, answered with the acknowledgement. */
import type { PublishFrame } from '../../../protocol/link/vhost.ts';
import { authorizePublish } from '../../../protocol/publish-right.ts';
import type { CommandAnswer, PublishRefusal } from '../../../protocol/rest-publish.ts';
import { EXCHANGE } from '../../../protocol/routing-keys.ts';
import { reasonOf } from '../../object/reason.ts';
import { findSiteAgain } from '../../registry/organization-copy.ts';
import type { SubmissionResult } from '../../rpc.ts';
import type { VhostParts } from '../parts.ts';
import { readEnvelope } from './publish.ts';

/** `siteId`: the site of the request's path, which the key may see. */
export async function publishOverHttps(
  vhost: VhostParts,
  siteId: string,
  routingKey: string,
  message: string,
): Promise<CommandAnswer | PublishRefusal> {
  const { key, organization, clock, rate } = vhost;
  const { record } = key;
  if (!record || vhost.hasEnded()) return { refused: 'ended' };
  const allowed = authorizePublish(key.names, key.scopes, EXCHANGE, routingKey);
  if (!allowed.ok) return { refused: 'forbidden', text: allowed.refusal.text };
  const family = allowed.value;
  // Emergencies are never held [C-6.5].
  if (family !== 'emergency' && !rate.takeNow(vhost.publishesPerSecond, clock.now()))
    return { refused: 'paced' };
  const frame: PublishFrame = {
    ...{ kind: 'publish', seq: 1, exchange: EXCHANGE, routingKey, body: message, encoding: 'utf8' },
    properties: '',
  };
  const envelope = readEnvelope(frame);
  if (!envelope.ok) return { refused: 'malformed', text: envelope.refusal };
  let found: string | undefined;
  try {
    found = await findSiteAgain(organization, record.allowedPlantIds, envelope.value.siteId);
  } catch (error) {
    return { refused: 'unstored', text: reasonOf(error) };
  }
  // Unknown here: perhaps the copy of the registry is old. The request named a site that D1 has.
  if (found !== siteId)
    return { refused: found === undefined && envelope.value.siteId === siteId ? 'unstored' : 'elsewhere' };
  let result: SubmissionResult | undefined;
  const publish = {
    ...{ frame, family, envelope: envelope.value },
    onResult: (given: SubmissionResult) => {
      result = given;
    },
  };
  const isRecorded = await vhost.publisher.publishAndWait(record, publish, clock.now());
  return isRecorded && result ? answerOf(result) : { refused: 'unstored' };
}

function answerOf({ acknowledgement, commandId, isRepeated }: SubmissionResult): CommandAnswer {
  return { acknowledgement, commandId, ...(isRepeated ? { repeated: true as const } : {}) };
}
