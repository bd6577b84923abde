/**
 * The judgement of one submission, as a visible list of stages (spec: Command processing; [C-7.4]): signature,
 * repeat, freshness, payload, then what its kind lists: target, constraint, asset, topology, fault. Pure: what the
 * site is and the time go in, a judgement comes out; nothing is written here.
 */
import {
  type Command,
  type DeviceCommandItem,
  parsePublish,
  statedWindow,
} from '../../../protocol/command.ts';
import { compact } from '../../../protocol/compact-json.ts';
import type { Acknowledgement, CommandResult } from '../../../protocol/event.ts';
import { faultsText } from '../../../protocol/issue.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import type { Submission } from '../../rpc.ts';
import type { SiteFacts } from '../site-facts.ts';
import type { JudgedItem, StageName, Window } from './kind/kind.ts';
import { kindOf } from './kind/kinds.ts';
import { publishDigest } from './message-ids.ts';
import { type Refusal, refusal, type Violation } from './refusal.ts';

/** An earlier publish with the same messageId. */
export interface EarlierMessage {
  /** See `publishDigest`. */
  digest: string;
  acknowledgement: Acknowledgement;
}

/** Signature, repeat, freshness and payload come before a kind's own. */
export type DecidingStage = 'signature' | 'repeat' | 'freshness' | 'payload' | 'window' | StageName;

export type Judgement =
  | { verdict: 'repeat'; acknowledgement: Acknowledgement }
  | {
      verdict: 'rejected';
      /** The stage that decided. */
      stage: DecidingStage;
      refusal: Refusal;
      results?: CommandResult[];
      violations: Violation[];
      /** False where the messageId was not proved to be this sender's, or is taken: it stays free. */
      binding: boolean;
    }
  | { verdict: 'valid'; command: Command; items: JudgedItem[]; violations: Violation[] };

interface Received {
  submission: Submission;
  earlier: EarlierMessage | undefined;
  now: number;
}

/** What every submission goes through before anybody looks into its payload. */
const ENTRANCE: readonly ((received: Received) => Judgement | undefined)[] = [signature, repeat, freshness];

export function judge(
  submission: Submission,
  earlier: EarlierMessage | undefined,
  facts: SiteFacts,
  now: number,
): Judgement {
  for (const stage of ENTRANCE) {
    const judgement = stage({ submission, earlier, now });
    if (judgement) return judgement;
  }
  const parsed = parsePublish(submission.family, submission.routingKey, submission.payloadText);
  if (parsed.ok) return judgeCommand(parsed.value, facts, now);
  const { commandType } = FAMILY_RULES[submission.family];
  const window = statedWindow(commandType, submission.payloadText);
  return invalidPayload('payload', [...parsed.refusal, ...windowFaults(window, now)]);
}

function judgeCommand(command: Command, facts: SiteFacts, now: number): Judgement {
  if (!facts.exists) return rejected('target', refusal('DEVICE_OFFLINE', 'no such site'));
  const kind = kindOf(command);
  const wrongWindow = windowFaults(kind.window(command.payload), now);
  const faults = [...wrongWindow, ...(kind.faults?.(command.payload, facts) ?? [])];
  if (faults.length > 0) return invalidPayload(wrongWindow.length > 0 ? 'window' : 'payload', faults);
  const items: JudgedItem[] = [];
  for (const [stage, check] of kind.stages) {
    const why = check({ payload: command.payload, facts, items });
    if (!why) continue;
    if (items.length === 0) return rejected(stage, why);
    return {
      verdict: 'rejected',
      stage: items.find((judged) => judged.refusal === why)?.stage ?? stage,
      refusal: why,
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

function signature({ submission }: Received): Judgement | undefined {
  const verdict = submission.signature;
  if (verdict === 'valid' || verdict === 'not-needed') return undefined;
  const hint = submission.signatureHint === undefined ? '' : `; ${submission.signatureHint}`;
  return rejected('signature', refusal('INVALID_PAYLOAD', `signature ${verdict}${hint}`), false);
}

/** [C-7.3] Looked up after the HMAC and before freshness: the same routing key, site (the object itself) and payload. */
function repeat({ submission, earlier }: Received): Judgement | undefined {
  if (!earlier) return undefined;
  if (earlier.digest === publishDigest(submission.routingKey, compact(submission.payloadText))) {
    return { verdict: 'repeat', acknowledgement: earlier.acknowledgement };
  }
  return rejected('repeat', refusal('INVALID_PAYLOAD', 'messageId reused'), false);
}

function freshness({ submission, now }: Received): Judgement | undefined {
  if (submission.signature !== 'valid') return undefined;
  if (Math.abs(now - submission.timestampMs) <= LIMIT.timestampToleranceMs) return undefined;
  return rejected('freshness', refusal('INVALID_PAYLOAD', 'signature timestamp outside tolerance'), false);
}

/** [C-7.6] */
function windowFaults({ fromMs, untilMs, untilField = 'validUntil' }: Window, now: number): string[] {
  if (untilMs === undefined) return [];
  const isOver = untilMs <= now;
  // Of what began already the end is either over or behind it.
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
