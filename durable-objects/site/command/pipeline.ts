/**
 * The judgement of one submission, as a visible list of stages (spec: Command processing; [C-7.4]): signature,
 * repeat, freshness, payload, target, constraint, asset, topology, fault. Pure: what the site is and the time go in,
 * a judgement comes out; nothing is written here.
 */

import { type Command, type DeviceCommandItem, parseCommand } from '../../../protocol/command.ts';
import { compact } from '../../../protocol/compact-json.ts';
import type { Acknowledgement, CommandResult } from '../../../protocol/event.ts';
import { parseInstant } from '../../../protocol/ids.ts';
import { FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import { TIMESTAMP_TOLERANCE_MS } from '../../../protocol/signing.ts';
import type { Submission } from '../../exchange.ts';
import {
  batteryDemand,
  checkItemAsset,
  checkItemConstraint,
  checkItemFault,
  checkItemTarget,
  checkSetpointConstraint,
  checkSiteTarget,
  checkSum,
  checkTopology,
  type SiteFacts,
} from './checks.ts';
import { type Refusal, refusal, type Violation } from './refusal.ts';

/** An earlier publish with the same messageId. */
export interface EarlierMessage {
  routingKey: string;
  /** Compact. */
  payloadText: string;
  acknowledgement: Acknowledgement;
}

export interface JudgedItem {
  item: DeviceCommandItem;
  refusal: Refusal | undefined;
}

export type Judgement =
  | { verdict: 'repeat'; acknowledgement: Acknowledgement }
  | {
      verdict: 'rejected';
      refusal: Refusal;
      results?: CommandResult[];
      violations: Violation[];
      /** False where the messageId was not proved to be this sender's, or is taken: it stays free. */
      binding: boolean;
    }
  | { verdict: 'valid'; command: Command; items: JudgedItem[]; violations: Violation[] };

interface State {
  submission: Submission;
  earlier: EarlierMessage | undefined;
  facts: SiteFacts;
  now: number;
  command?: Command;
  items: JudgedItem[];
}

type Outcome = Judgement | undefined;
type Stage = (state: State) => Outcome;

const STAGES: readonly Stage[] = [
  signature,
  repeat,
  freshness,
  payload,
  siteTarget,
  siteConstraint,
  siteTopology,
  batchItems,
  batchSums,
  batchOutcome,
];

export function judge(
  submission: Submission,
  earlier: EarlierMessage | undefined,
  facts: SiteFacts,
  now: number,
): Judgement {
  const state: State = { submission, earlier, facts, now, items: [] };
  for (const stage of STAGES) {
    const outcome = stage(state);
    if (outcome) return outcome;
  }
  if (!state.command) throw new Error('a submission left the pipeline without a command');
  return {
    verdict: 'valid',
    command: state.command,
    items: state.items,
    violations: violationsOf(state.items),
  };
}

function rejected(why: Refusal, binding = true): Judgement {
  return { verdict: 'rejected', refusal: why, violations: why.violation ? [why.violation] : [], binding };
}

function signature({ submission }: State): Outcome {
  const verdict = submission.signature;
  if (verdict === 'valid' || verdict === 'not-needed') return undefined;
  return rejected(refusal('INVALID_PAYLOAD', `signature ${verdict}`), false);
}

/** [C-7.3] Looked up after the HMAC and before freshness: the same routing key, site (the object itself) and payload. */
function repeat({ submission, earlier }: State): Outcome {
  if (!earlier) return undefined;
  const { routingKey, payloadText } = submission;
  if (earlier.routingKey === routingKey && earlier.payloadText === compact(payloadText)) {
    return { verdict: 'repeat', acknowledgement: earlier.acknowledgement };
  }
  return rejected(refusal('INVALID_PAYLOAD', 'messageId reused'), false);
}

function freshness({ submission, now }: State): Outcome {
  if (submission.signature !== 'valid') return undefined;
  if (Math.abs(now - submission.timestampMs) <= TIMESTAMP_TOLERANCE_MS) return undefined;
  return rejected(refusal('INVALID_PAYLOAD', 'signature timestamp outside tolerance'), false);
}

function payload(state: State): Outcome {
  const parsed = parseCommand(state.submission.family, state.submission.payloadText);
  if (!parsed.ok) return rejected(refusal('INVALID_PAYLOAD', parsed.refusal));
  const wrongWindow = checkWindow(parsed.value, state.now);
  if (wrongWindow) return rejected(wrongWindow);
  state.command = parsed.value;
  return undefined;
}

/** [C-7.6] */
function checkWindow(command: Command, now: number): Refusal | undefined {
  const window = windowOf(command);
  if (window.untilMs === undefined) return undefined;
  if (window.untilMs <= now) return refusal('INVALID_PAYLOAD', 'validUntil: must be in the future');
  if (window.fromMs !== undefined && window.untilMs <= window.fromMs) {
    return refusal('INVALID_PAYLOAD', 'validUntil: must be after validFrom');
  }
  return undefined;
}

export function windowOf(command: Command): { fromMs: number | undefined; untilMs: number | undefined } {
  const { payload: fields } = command;
  const from = 'validFrom' in fields ? parseInstant(fields.validFrom) : undefined;
  const until = 'validUntil' in fields && fields.validUntil ? parseInstant(fields.validUntil) : undefined;
  return { fromMs: from, untilMs: until };
}

function siteTarget({ command, facts }: State): Outcome {
  if (!command || command.commandType === 'DEVICE_COMMAND') return undefined;
  const why = checkSiteTarget(command, facts);
  return why && rejected(why);
}

function siteConstraint({ command, facts }: State): Outcome {
  if (command?.commandType !== 'SITE_SETPOINT') return undefined;
  const why = checkSetpointConstraint(command.payload, facts);
  return why && rejected(why);
}

function siteTopology({ command, facts }: State): Outcome {
  if (!command || command.commandType === 'DEVICE_COMMAND') return undefined;
  const why = checkTopology(command, facts);
  return why && rejected(why);
}

const ITEM_CHECKS = [checkItemTarget, checkItemConstraint, checkItemAsset, checkItemFault] as const;

/** Item by item; a deviceId named again makes the later item INVALID_COMMAND [C-7.4]. */
function batchItems(state: State): Outcome {
  if (state.command?.commandType !== 'DEVICE_COMMAND') return undefined;
  const named = new Set<string>();
  for (const item of state.command.payload.commands) {
    let why: Refusal | undefined;
    for (const check of ITEM_CHECKS) why ??= check(item, state.facts);
    if (!why && named.has(item.deviceId)) why = refusal('INVALID_COMMAND', `${item.deviceId} is named twice`);
    named.add(item.deviceId);
    state.items.push({ item, refusal: why });
  }
  return undefined;
}

/** Then the sum per direction: over it, every item of that direction falls [C-7.4]. */
function batchSums(state: State): Outcome {
  for (const limit of ['maxChargeKw', 'maxDischargeKw'] as const) {
    const standing = state.items.filter((judged) => !judged.refusal);
    const demanding = standing.filter((judged) => batteryDemand(judged.item, state.facts)?.limit === limit);
    const total = demanding.reduce(
      (sum, judged) => sum + (batteryDemand(judged.item, state.facts)?.powerKw ?? 0),
      0,
    );
    const why = demanding.length > 1 ? checkSum(limit, total, state.facts) : undefined;
    if (!why) continue;
    for (const judged of demanding) judged.refusal = why;
  }
  return undefined;
}

function batchOutcome(state: State): Outcome {
  const first = state.items[0]?.refusal;
  if (!first || state.items.some((judged) => !judged.refusal)) return undefined;
  return {
    verdict: 'rejected',
    refusal: first,
    results: resultsOf(state.items, () => false),
    violations: violationsOf(state.items),
    binding: true,
  };
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
