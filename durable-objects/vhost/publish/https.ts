/**
 * Publishes over HTTPS [C-13.5] and their dry runs [C-13.1]: the same checks and the same pipeline as over AMQP, answered
 * with the acknowledgement.
 */
import type { DryRunCommand } from '../../../protocol/dry-run.ts';
import type { PublishFrame } from '../../../protocol/link/vhost.ts';
import { authorizePublish } from '../../../protocol/publish-right.ts';
import type { CommandAnswer, PublishRefusal } from '../../../protocol/rest-publish.ts';
import { type CommandFamily, EXCHANGE } from '../../../protocol/routing-keys.ts';
import { findSiteAgain } from '../../../registry/organization-copy.ts';
import type { DryRunRefusal } from '../../ask-rpc.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Submission, SubmissionResult } from '../../rpc.ts';
import type { KeyRecord } from '../key/key.ts';
import type { VhostParts } from '../parts.ts';
import { readEnvelope } from './publish.ts';
import type { Publish } from './publisher.ts';

export const UNSTORED = { refused: 'unstored' as const };
/** How long a Site has for a dry run. */
const DRY_RUN_MS = 8_000;

/** `siteId`: the site of the request's path, which the key may see. */
export async function publishOverHttps(
  vhost: VhostParts,
  siteId: string,
  routingKey: string,
  message: string,
): Promise<CommandAnswer | PublishRefusal> {
  const { clock, rate } = vhost;
  const allowed = authorize(vhost, routingKey);
  if ('refused' in allowed) return allowed;
  const { record, family } = allowed;
  // Emergencies are never held [C-6.5].
  if (family !== 'emergency' && !rate.takeNow(vhost.publishesPerSecond, clock.now()))
    return { refused: 'paced' };
  const admitted = await admit(vhost, record, siteId, { routingKey, message, family });
  if ('refused' in admitted) return admitted;
  let result: SubmissionResult | undefined;
  const publish = {
    ...admitted,
    onResult: (given: SubmissionResult) => {
      result = given;
    },
  };
  const isRecorded = await vhost.publisher.publishAndWait(record, publish, clock.now());
  return isRecorded && result ? answerOf(result) : { refused: 'unstored' };
}

/** Asks the Site what the publishes would be answered. Limited to the key's publish rate, by a counter of its own. */
export async function dryRunOverHttps(
  vhost: VhostParts,
  siteId: string,
  commands: readonly DryRunCommand[],
): Promise<string[] | DryRunRefusal> {
  if (!vhost.dryRuns.takeNow(vhost.publishesPerSecond, vhost.clock.now(), commands.length))
    return { refused: 'paced', place: 0 };
  const submissions: Submission[] = [];
  for (const [place, { routingKey, message, ignoreSignature }] of commands.entries()) {
    const allowed = authorize(vhost, routingKey);
    if ('refused' in allowed) return { ...allowed, place };
    const { record, family } = allowed;
    const admitted = await admit(vhost, record, siteId, { routingKey, message, family });
    if ('refused' in admitted) return { ...admitted, place };
    const submission = vhost.publisher.submissionOf(admitted);
    submissions.push(ignoreSignature ? { ...submission, signature: 'not-needed' } : submission);
  }
  const { record } = vhost.key;
  if (!record || vhost.hasEnded()) return { refused: 'ended', place: 0 };
  try {
    return await vhost.publisher.dryRun(siteId, record, submissions, vhost.clock.now() + DRY_RUN_MS);
  } catch (error) {
    return { refused: 'unstored', text: reasonOf(error), place: 0 };
  }
}

function authorize(
  vhost: VhostParts,
  routingKey: string,
): { record: KeyRecord; family: CommandFamily } | PublishRefusal {
  const { key } = vhost;
  const { record } = key;
  if (!record || vhost.hasEnded()) return { refused: 'ended' };
  const allowed = authorizePublish(key.names, key.scopes, EXCHANGE, routingKey);
  if (!allowed.ok) return { refused: 'forbidden', text: allowed.refusal.text };
  return { record, family: allowed.value };
}

/** Parses the message and checks that it names the site of the request. */
async function admit(
  { organization }: VhostParts,
  { allowedPlantIds }: KeyRecord,
  siteId: string,
  { routingKey, message, family }: { routingKey: string; message: string; family: CommandFamily },
): Promise<Publish | PublishRefusal> {
  const frame: PublishFrame = {
    ...{ kind: 'publish', seq: 1, exchange: EXCHANGE, routingKey, body: message, encoding: 'utf8' },
    properties: '',
  };
  const envelope = readEnvelope(frame);
  if (!envelope.ok) return { refused: 'malformed', text: envelope.refusal };
  let found: string | undefined;
  try {
    found = await findSiteAgain(organization, allowedPlantIds, envelope.value.siteId);
  } catch (error) {
    return { refused: 'unstored', text: reasonOf(error) };
  }
  if (found === siteId) return { frame, family, envelope: envelope.value };
  // Unknown here: perhaps the copy of the registry is old. The request named a site that D1 has.
  return { refused: found === undefined && envelope.value.siteId === siteId ? 'unstored' : 'elsewhere' };
}

function answerOf({ acknowledgement, commandId, isRepeated }: SubmissionResult): CommandAnswer {
  return { acknowledgement, commandId, ...(isRepeated ? { repeated: true as const } : {}) };
}
