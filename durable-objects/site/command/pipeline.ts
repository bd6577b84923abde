/**
 * Validates one submission in a fixed list of stages (spec: Command processing; [C-7.4]): signature, repeat,
 * freshness, payload, window, then the stages of its kind: target, constraint, asset, topology, fault. Pure:
 * takes site facts and the time, returns a judgement, writes nothing. The decision explains a judgement: the
 * deciding stage and the facts that it used, stored with the log row and shown as `decision` [C-4.3].
 */
import {
  type Command,
  type DeviceCommandItem,
  parsePublish,
  statedWindow,
} from '../../../protocol/command.ts';
import { compact } from '../../../protocol/compact-json.ts';
import type { Acknowledgement, CommandResult } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { faultsText } from '../../../protocol/issue.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import type { Submission } from '../../rpc.ts';
import type { PlannedDispatch, Window } from '../dispatch/dispatch.ts';
import { type Refusal, refusal, type Violation } from '../refusal.ts';
import { findSubDevice, type SiteView } from '../site-view.ts';
import type { JudgedItem, StageName } from './kind/kind.ts';
import { kindOf } from './kind/kinds.ts';
import { publishDigest } from './message-ids.ts';

/** An earlier publish with the same messageId. */
export interface EarlierMessage {
  /** See `publishDigest`. */
  digest: string;
  acknowledgement: Acknowledgement;
}

/** The stages of every command, and those of the command kinds. */
export type DecidingStage = 'signature' | 'repeat' | 'freshness' | 'payload' | 'window' | StageName;

export type Judgement =
  | { verdict: 'repeat'; acknowledgement: Acknowledgement }
  | {
      verdict: 'rejected';
      /** The stage that rejected the submission. */
      stage: DecidingStage;
      refusal: Refusal;
      results?: CommandResult[];
      /** The items of a batch. */
      items?: readonly JudgedItem[];
      violations: Violation[];
      /**
       * Whether the messageId is reserved. False if the signature is missing or wrong, its timestamp is outside
       * the tolerance, or the messageId is already used.
       */
      binding: boolean;
    }
  | { verdict: 'valid'; command: Command; items: JudgedItem[]; violations: Violation[] };

/** A submission with what several steps need of it, computed once. */
export interface Received {
  submission: Submission;
  /** The payload without whitespace outside strings. */
  payloadText: string;
  /** See `publishDigest`. */
  digest: string;
}

export function receive(submission: Submission): Received {
  const payloadText = compact(submission.payloadText);
  return { submission, payloadText, digest: publishDigest(submission.routingKey, payloadText) };
}

interface Entering extends Received {
  earlier: EarlierMessage | undefined;
  now: number;
}

/** The stages before the payload is parsed. */
const ENTRANCE: readonly ((entering: Entering) => Judgement | undefined)[] = [signature, repeat, freshness];

export function judge(
  received: Received,
  earlier: EarlierMessage | undefined,
  view: SiteView,
  now: number,
): Judgement {
  for (const stage of ENTRANCE) {
    const judgement = stage({ ...received, earlier, now });
    if (judgement) return judgement;
  }
  const { submission } = received;
  const parsed = parsePublish(submission.family, submission.routingKey, submission.payloadText);
  if (parsed.ok) return judgeCommand(parsed.value, view, now);
  const { commandType } = FAMILY_RULES[submission.family];
  const window = statedWindow(commandType, submission.payloadText);
  return invalidPayload('payload', [...parsed.refusal, ...windowFaults(window, now)]);
}

/** The stages after the payload was parsed. */
export function judgeCommand(command: Command, view: SiteView, now: number): Judgement {
  if (!view.exists) return rejected('target', refusal('DEVICE_OFFLINE', 'no such site'));
  const kind = kindOf(command);
  const wrongWindow = windowFaults(kind.window(command.payload), now);
  const faults = [...wrongWindow, ...(kind.faults?.(command.payload, view) ?? [])];
  if (faults.length > 0) return invalidPayload(wrongWindow.length > 0 ? 'window' : 'payload', faults);
  const items: JudgedItem[] = [];
  for (const [stage, check] of kind.stages) {
    const why = check({ payload: command.payload, view, items });
    if (!why) continue;
    if (items.length === 0) return rejected(stage, why);
    return {
      verdict: 'rejected',
      stage: items.find((judged) => judged.refusal === why)?.stage ?? stage,
      refusal: why,
      items,
      results: resultsOf(items, () => false),
      violations: violationsOf(items),
      binding: true,
    };
  }
  return { verdict: 'valid', command, items, violations: violationsOf(items) };
}

function rejected(stage: DecidingStage, why: Refusal, binding = true): Judgement {
  return {
    verdict: 'rejected',
    stage,
    refusal: why,
    violations: why.violation ? [why.violation] : [],
    binding,
  };
}

function invalidPayload(stage: 'payload' | 'window', faults: readonly string[]): Judgement {
  return rejected(stage, refusal('INVALID_PAYLOAD', faultsText(faults)));
}

function signature({ submission }: Entering): Judgement | undefined {
  const verdict = submission.signature;
  if (verdict === 'valid' || verdict === 'not-needed') return undefined;
  const hint = submission.signatureHint === undefined ? '' : `; ${submission.signatureHint}`;
  return rejected('signature', refusal('INVALID_PAYLOAD', `signature ${verdict}${hint}`), false);
}

/**
 * [C-7.3] If the messageId was used before: the same routing key and payload get the earlier acknowledgement again, and
 * anything else is rejected. Runs after the HMAC check and before the freshness check.
 */
function repeat({ digest, earlier }: Entering): Judgement | undefined {
  if (!earlier) return undefined;
  if (earlier.digest === digest) {
    return { verdict: 'repeat', acknowledgement: earlier.acknowledgement };
  }
  return rejected('repeat', refusal('INVALID_PAYLOAD', 'messageId reused'), false);
}

function freshness({ submission, now }: Entering): Judgement | undefined {
  if (submission.signature !== 'valid') return undefined;
  const lateMs = now - submission.timestampMs;
  if (Math.abs(lateMs) <= LIMIT.timestampToleranceMs) return undefined;
  const side = lateMs > 0 ? 'behind' : 'ahead of';
  const allowed = LIMIT.timestampToleranceMs / 1_000;
  // Without the present time, so that a dry run and the command itself have the same answer [C-13.1].
  const at = formatInstant(submission.timestampMs);
  const text = `timestamp ${at} is more than ${allowed} s ${side} the platform's clock`;
  const why = refusal('INVALID_PAYLOAD', `signature timestamp outside tolerance; ${text}`);
  return rejected('freshness', why, false);
}

/** [C-7.6] */
function windowFaults({ fromMs, untilMs, untilField = 'validUntil' }: Window, now: number): string[] {
  if (untilMs === undefined) return [];
  const isOver = untilMs <= now;
  // A window that has already begun is only checked for its end.
  const isBackwards = fromMs !== undefined && fromMs > now && untilMs <= fromMs;
  return [
    ...(isOver ? [`${untilField}: must be in the future`] : []),
    ...(isBackwards ? [`${untilField}: must be after validFrom`] : []),
  ];
}

function violationsOf(items: readonly JudgedItem[]): Violation[] {
  const violations = items.flatMap((judged) => judged.refusal?.violation ?? []);
  return [...new Set(violations)];
}

/** `results[]` of a batch's acknowledgement [C-7.5]. */
export function resultsOf(
  items: readonly JudgedItem[],
  isQueued: (item: DeviceCommandItem) => boolean,
): CommandResult[] {
  return items.map(({ item, refusal: why }, index) => {
    const result = { index, deviceId: item.deviceId, command: item.command };
    if (why) return { ...result, status: 'REJECTED', rejectionCode: why.rejectionCode, message: why.message };
    return { ...result, status: isQueued(item) ? 'QUEUED' : 'ACCEPTED' };
  });
}

/** The acknowledgement of a rejected submission. */
export function rejection(
  submission: Submission,
  judgement: Extract<Judgement, { verdict: 'rejected' }>,
): Acknowledgement {
  return {
    status: 'REJECTED',
    commandType: FAMILY_RULES[submission.family].commandType,
    message: judgement.refusal.message,
    rejectionCode: judgement.refusal.rejectionCode,
    ...(judgement.results ? { results: judgement.results } : {}),
  };
}

// the decision

export interface Decision {
  stage: DecidingStage | 'plan' | 'dispatch';
  facts: Record<string, unknown>;
}

type Rejected = Extract<Judgement, { verdict: 'rejected' }>;

export function rejectedDecision(
  { stage, refusal: why, results }: Rejected,
  submission: Submission,
  view: SiteView,
): Decision {
  return {
    stage,
    facts: { ...factsOf(stage, submission, view), ...limitSeen(why.violation), ...named(results, view) },
  };
}

/**
 * `planFacts`: what the plan says about a command that gets an entry in it; undefined for commands that are
 * sent directly to their devices.
 */
export function acceptedDecision(
  items: readonly JudgedItem[],
  planned: readonly PlannedDispatch[],
  planFacts: Record<string, unknown> | undefined,
  view: SiteView,
): Decision {
  const dispatches = planned.map(({ deviceId, action }) => ({
    action,
    deviceId,
    isThere: view.isLive(deviceId),
  }));
  if (planFacts) return { stage: 'plan', facts: { ...planFacts, dispatches } };
  const refused = items
    .filter((judged) => judged.refusal)
    .map(({ item, stage }) => ({ deviceId: item.deviceId, stage }));
  return { stage: 'dispatch', facts: { dispatches, ...(refused.length > 0 ? { refused } : {}) } };
}

function factsOf(stage: DecidingStage, submission: Submission, view: SiteView): Record<string, unknown> {
  switch (stage) {
    case 'signature':
      return { signature: submission.signature };
    case 'freshness':
      return { timestampMs: submission.timestampMs };
    case 'topology':
      return { assetTypes: [...new Set(view.subDevices.map(({ assetType }) => assetType))] };
    case 'constraint':
      return view.emergency ? { emergency: view.emergency.type } : {};
    case 'target':
      return { gateway: view.gatewayId ?? null };
    default:
      return {};
  }
}

function limitSeen(violation: Rejected['refusal']['violation']): Record<string, unknown> {
  if (!violation) return {};
  const { constraint, limit, value, unit } = violation;
  return { constraint, limit, value, unit };
}

/** The first result's sub-device and its entry in the topology. */
function named(results: Rejected['results'], view: SiteView): Record<string, unknown> {
  const [first] = results ?? [];
  if (!first) return {};
  const subDevice = findSubDevice(view, first.deviceId);
  const topology = subDevice
    ? { assetType: subDevice.assetType, linkedDeviceId: subDevice.linkedDeviceId }
    : null;
  return { deviceId: first.deviceId, topology };
}
