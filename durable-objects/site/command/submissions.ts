/**
 * Records submissions: writes for each new one a log row, an acknowledgement and, where the judgement asks for
 * them, the row of its messageId and the command's dispatches, all in one step of the caller's turn (rule 3,
 * rule 5). A repeat only gets its acknowledgement again. No rule here depends on the command type.
 */
import type { CommandOf } from '../../../protocol/command.ts';
import { signableJson } from '../../../protocol/compact-json.ts';
import type { RejectionCode } from '../../../protocol/enums.ts';
import type { Acknowledgement } from '../../../protocol/event.ts';
import { type CommandType, FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import { uuidAt } from '../../object/timed-uuid.ts';
import type { Turn } from '../../object/turn.ts';
import type { Submission, SubmissionBatch, SubmissionResult } from '../../rpc.ts';
import { type PlannedDispatch, windowOf } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { EventSubject } from '../event/event-rows.ts';
import type { Events } from '../event/events.ts';
import type { SiteView, ViewOf } from '../site-view.ts';
import { type JudgementInputs, type RecordedView, recording } from './inputs.ts';
import { KINDS, kindOf } from './kind/kinds.ts';
import { rejectedPayload } from './log.ts';
import type { MessageIdRow, MessageIdRows } from './message-ids.ts';
import type { CommandOwners } from './owner.ts';
import {
  acceptedDecision,
  type Decision,
  type Judgement,
  judge,
  type Received,
  receive,
  rejectedDecision,
  rejection,
  resultsOf,
} from './pipeline.ts';
import type { CommandRow, CommandRows, NewCommand } from './rows.ts';

type Sender = Pick<SubmissionBatch, 'siteId' | 'keyId' | 'keyPrefix' | 'partnerId' | 'isRepeated'>;
type Judged<Verdict extends Judgement['verdict']> = Extract<Judgement, { verdict: Verdict }>;

/** What a submission was answered with, and why. */
export interface Recording {
  result: SubmissionResult;
  received: Received;
  /** Undefined: the publish was judged before. */
  judgement?: Judgement;
  /** The command, if the submission is a valid new one; `stage`: what the command led to. */
  command?: { sequence: number; stage: Decision['stage'] };
}

export interface SubmissionsHost {
  rows: CommandRows;
  messageIds: MessageIdRows;
  dispatches: Dispatches;
  events: Events;
  owners: CommandOwners;
  view: ViewOf;
}

export class Submissions {
  readonly #host: SubmissionsHost;

  constructor(host: SubmissionsHost) {
    this.#host = host;
  }

  /**
   * Records the submissions in their order, each in a separate step. If a step fails, only its own submission
   * is not recorded: null.
   */
  recordBatch(turn: Turn, batch: SubmissionBatch): (Recording | null)[] {
    return batch.submissions.map((submission) => {
      const recorded: Recording[] = [];
      const isRecorded = turn.step(() => {
        recorded.push(this.#record(turn, batch, submission));
      });
      return (isRecorded && recorded[0]) || null;
    });
  }

  #record(turn: Turn, sender: Sender, submission: Submission): Recording {
    const { rows, messageIds, events, view } = this.#host;
    const received = receive(submission);
    const rejected = sender.isRepeated && submission.publishId && rows.ofPublish(submission.publishId);
    if (rejected) {
      // This publish was rejected before, so it gets the same rejection again, even if it would be valid now.
      const rejection = rejectionOf(rejected);
      events.acknowledgeAgain(turn, subjectOf(sender, submission, rejected.id), rejection);
      return { received, result: { commandId: rejected.id, acknowledgement: rejection, isRepeated: true } };
    }
    const row = messageIds.find(sender.keyId, submission.messageId);
    const needsLinked = KINDS[FAMILY_RULES[submission.family].commandType].reachesLinked === true;
    const seen = recording(view(turn), sender.partnerId, received.payloadText, needsLinked);
    const judgement = judge(received, row && earlierMessage(row), seen.view, turn.now);
    const inputs = (): string => inputsOf(submission, row !== undefined, seen.recorded);
    switch (judgement.verdict) {
      case 'repeat': {
        const commandId = row?.command_id ?? '';
        const { acknowledgement } = judgement;
        events.acknowledgeAgain(turn, subjectOf(sender, submission, commandId), acknowledgement);
        return { received, judgement, result: { commandId, acknowledgement, isRepeated: true } };
      }
      case 'rejected':
        return this.#recordRejection(turn, sender, received, judgement, inputs);
      case 'valid':
        return this.#recordCommand(turn, sender, received, judgement.command, {
          judgement,
          view: seen.view,
          inputs,
        });
    }
  }

  #recordRejection(
    turn: Turn,
    sender: Sender,
    received: Received,
    judgement: Judged<'rejected'>,
    inputs: () => string,
  ): Recording {
    const { rows, events, view } = this.#host;
    const { submission, payloadText } = received;
    const acknowledgement = rejection(submission, judgement);
    const entry = logRow(turn, sender, received, acknowledgement);
    const sequence = rows.insert(turn, {
      ...entry,
      payload: rejectedPayload(payloadText),
      status: 'REJECTED',
      rejection_code: judgement.refusal.rejectionCode,
      decision: JSON.stringify(rejectedDecision(judgement, submission, view(turn))),
      inputs: inputs(),
      finished_at_ms: turn.now,
      // A rejection that does not reserve the messageId is stored with the id of its publish, so that a
      // repeat of the publish gets the same answer.
      publish_id: judgement.binding ? null : (submission.publishId ?? null),
    });
    if (judgement.binding) this.#bind(turn, sender, received, { id: entry.id, sequence }, acknowledgement);
    const about = subjectOf(sender, submission, entry.id);
    events.acknowledged(turn, about, acknowledgement, judgement.violations);
    return { received, judgement, result: { commandId: entry.id, acknowledgement, isRepeated: false } };
  }

  #recordCommand<Type extends CommandType>(
    turn: Turn,
    sender: Sender,
    received: Received,
    command: CommandOf<Type>,
    { judgement, view, inputs }: { judgement: Judged<'valid'>; view: SiteView; inputs: () => string },
  ): Recording {
    const { items, violations } = judgement;
    const { rows, events, dispatches } = this.#host;
    const kind = kindOf(command);
    const owner = this.#host.owners[command.commandType];
    const { payload } = command;
    const window = windowOf(kind.window(payload), turn.now);
    const planned = kind.plan(payload, items, view);
    const { partnerId } = sender;
    const accepted = { partnerId, payload, items, planned, window, view };
    const { waits, planFacts, fullPlanFacts } = owner.outlook(turn, accepted);
    const goesNow = ({ deviceId }: PlannedDispatch) => !waits && view.isLive(deviceId);

    // 1. the acknowledgement
    const waiting = planned.filter((dispatch) => !goesNow(dispatch));
    const waitingItems = new Set(waiting.flatMap((dispatch) => dispatch.items));
    const isPartial = items.some((judged) => judged.refusal);
    const acknowledgement: Acknowledgement = {
      status: isPartial ? 'PARTIAL' : waiting.length > 0 ? 'QUEUED' : 'ACCEPTED',
      commandType: command.commandType,
      ...(items.length > 0 ? { results: resultsOf(items, (item) => waitingItems.has(item)) } : {}),
    };

    // 2. the log row, and the row of the messageId
    const entry = logRow(turn, sender, received, acknowledgement);
    const { id } = entry;
    const decision = acceptedDecision(items, planned, planFacts, view);
    const sequence = rows.insert(turn, {
      ...entry,
      ...kind.logColumns(payload),
      decision: JSON.stringify(decision),
      ...(fullPlanFacts && {
        full_decision: JSON.stringify(acceptedDecision(items, planned, fullPlanFacts, view)),
      }),
      inputs: inputs(),
      status: 'PENDING',
      dispatched_at_ms: waiting.length < planned.length ? turn.now : null,
      valid_from_ms: window.validFromMs,
      valid_until_ms: window.validUntilMs,
    });
    this.#bind(turn, sender, received, { id, sequence }, acknowledgement);

    // 3. its events
    events.acknowledged(turn, subjectOf(sender, received.submission, id), acknowledgement, violations);

    // 4. the dispatches that are sent to the plant now, and those that wait
    owner.recorded(turn, { ...accepted, sequence, id });
    if (waiting.length > 0) dispatches.makeRoom(turn);
    const result = { commandId: id, acknowledgement, isRepeated: false };
    return { received, judgement, command: { sequence, stage: decision.stage }, result };
  }

  #bind(
    turn: Turn,
    sender: Sender,
    { submission, digest }: Received,
    command: { id: string; sequence: number },
    acknowledgement: Acknowledgement,
  ): void {
    this.#host.messageIds.remember(turn, sender.keyId, submission.messageId, {
      command_id: command.id,
      command_sequence: command.sequence,
      digest,
      acknowledgement: signableJson(acknowledgement),
    });
  }
}

function inputsOf({ signature, timestampMs }: Submission, isUsed: boolean, view: RecordedView): string {
  const inputs: JudgementInputs = { signature, timestampMs, ...(isUsed ? { isUsed } : {}), view };
  return JSON.stringify(inputs);
}

function earlierMessage({ digest, acknowledgement }: MessageIdRow) {
  return { digest, acknowledgement: JSON.parse(acknowledgement) as Acknowledgement };
}

/** The acknowledgement that a rejected row was answered with. */
function rejectionOf(row: CommandRow): Acknowledgement {
  return {
    status: 'REJECTED',
    commandType: row.command_type,
    ...(row.message === null ? {} : { message: row.message }),
    ...(row.rejection_code === null ? {} : { rejectionCode: row.rejection_code as RejectionCode }),
    ...(row.results === null ? {} : { results: JSON.parse(row.results) }),
  };
}

function subjectOf(sender: Sender, submission: Submission, commandId: string): EventSubject {
  return {
    commandId,
    keyId: sender.keyId,
    partnerId: sender.partnerId,
    correlationId: submission.correlationId ?? submission.messageId,
    commandType: FAMILY_RULES[submission.family].commandType,
  };
}

function logRow(
  turn: Turn,
  sender: Sender,
  { submission, payloadText }: Received,
  acknowledgement: Acknowledgement,
): Omit<NewCommand, 'status'> {
  return {
    id: uuidAt(turn.now),
    key_id: sender.keyId,
    key_prefix: sender.keyPrefix,
    partner_id: sender.partnerId,
    message_id: submission.messageId,
    correlation_id: submission.correlationId,
    command_type: acknowledgement.commandType,
    routing_key: submission.routingKey,
    payload: payloadText,
    message: acknowledgement.message ?? null,
    results: acknowledgement.results ? signableJson(acknowledgement.results) : null,
    source: submission.source,
    published_at_ms: submission.publishedAtMs ?? turn.now,
    created_at_ms: turn.now,
    acked_at_ms: turn.now,
  };
}
