/**
 * Recording one submission: its judgement becomes a log row, the messageId's one effect, an acknowledgement and the
 * dispatches, all in the caller's turn (rule 3, rule 5).
 */
import type { SiteSetpoint } from '../../../protocol/command.ts';
import { compact, signableJson } from '../../../protocol/compact-json.ts';
import type { RejectionCode } from '../../../protocol/enums.ts';
import type { Acknowledgement } from '../../../protocol/event.ts';
import { FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import type { Submission, SubmissionBatch } from '../../rpc.ts';
import { applyConfig } from '../config/apply.ts';
import { type DispatchWindow, windowOf } from '../dispatch/dispatch.ts';
import { dispatch } from '../dispatch/send-command.ts';
import { makeRoom } from '../dispatch/waiting.ts';
import { acknowledgementEvent, type EventSubject, violationAlarms } from '../event/events.ts';
import { raise } from '../event/raise.ts';
import type { SiteParts } from '../parts.ts';
import { beginEmergency, enter } from '../plan/settle.ts';
import type { PlanEntry } from '../plan/stack.ts';
import { cancelSchedule, passSchedules, setSchedule } from '../schedule/lifecycle.ts';
import { acceptedDecision, type OnTop, rejectedDecision } from './decision.ts';
import { rejectedPayload } from './kept-payload.ts';
import { mergedConfig } from './kind/config.ts';
import { batteryDemands } from './kind/device-command.ts';
import type { PlannedDispatch } from './kind/kind.ts';
import { kindOf } from './kind/kinds.ts';
import { isScheduleSet } from './kind/schedule.ts';
import { publishDigest } from './message-ids.ts';
import { type EarlierMessage, type Judgement, judge, rejection, resultsOf } from './pipeline.ts';
import type { Violation } from './refusal.ts';
import type { CommandRow, NewCommand } from './rows.ts';

type Sender = Pick<SubmissionBatch, 'siteId' | 'keyId' | 'keyPrefix' | 'isRepeated'>;

export function recordSubmission(turn: Turn, site: SiteParts, sender: Sender, submission: Submission): void {
  const told = sender.isRepeated && submission.publishId && site.commands.ofPublish(submission.publishId);
  if (told) {
    // What was rejected once stays so for this publish, whatever has become true meanwhile.
    const about = subjectOf(sender, submission, told.id);
    site.outbox.emit(turn, acknowledgementEvent(about, rejectionOf(told), turn.now));
    return;
  }
  const earlier = earlierMessage(site, sender, submission);
  const judgement = judge(submission, earlier, site.facts(turn), turn.now);
  switch (judgement.verdict) {
    case 'repeat': {
      const about = subjectOf(sender, submission, earlier?.commandId ?? '');
      site.outbox.emit(turn, acknowledgementEvent(about, judgement.acknowledgement, turn.now));
      return;
    }
    case 'rejected':
      recordRejection(turn, site, sender, submission, judgement);
      return;
    case 'valid':
      recordCommand(turn, site, sender, submission, judgement);
  }
}

function earlierMessage(
  site: SiteParts,
  sender: Sender,
  submission: Submission,
): (EarlierMessage & { commandId: string }) | undefined {
  const row = site.messageIds.find(sender.keyId, submission.messageId);
  if (!row) return undefined;
  const acknowledgement = JSON.parse(row.acknowledgement) as Acknowledgement;
  const digest = row.digest === '' ? digestFromLog(site, row.command_sequence, submission) : row.digest;
  return { digest, acknowledgement, commandId: row.command_id };
}

/** Of a row from before: its log row tells whether it was the same; of one that was rejected it may hold the beginning. */
function digestFromLog(site: SiteParts, sequence: number, { payloadText }: Submission): string {
  const logged = site.commands.find(sequence);
  const text = compact(payloadText);
  const isSame = logged?.payload === text || logged?.payload === rejectedPayload(text);
  return isSame ? publishDigest(logged?.routing_key ?? '', text) : '';
}

/** The acknowledgement that a rejected row was told with. */
function rejectionOf(row: CommandRow): Acknowledgement {
  return {
    status: 'REJECTED',
    commandType: row.command_type,
    ...(row.message === null ? {} : { message: row.message }),
    ...(row.rejection_code === null ? {} : { rejectionCode: row.rejection_code as RejectionCode }),
    ...(row.results === null ? {} : { results: JSON.parse(row.results) }),
  };
}

function recordRejection(
  turn: Turn,
  site: SiteParts,
  sender: Sender,
  submission: Submission,
  judgement: Extract<Judgement, { verdict: 'rejected' }>,
): void {
  const acknowledgement = rejection(submission, judgement);
  const entry = logRow(turn, sender, submission, acknowledgement);
  const sequence = site.commands.insert(turn, {
    ...entry,
    payload: rejectedPayload(compact(submission.payloadText)),
    status: 'REJECTED',
    rejection_code: judgement.refusal.rejectionCode,
    decision: JSON.stringify(rejectedDecision(judgement, submission, site.facts(turn))),
    finished_at_ms: turn.now,
    // What binds no messageId is known by its publish: a lane that hands it over again gets the same answer.
    publish_id: judgement.binding ? null : (submission.publishId ?? null),
  });
  if (judgement.binding) bind(turn, site, sender, submission, { id: entry.id, sequence }, acknowledgement);
  answer(turn, site, subjectOf(sender, submission, entry.id), acknowledgement, judgement.violations);
}

function recordCommand(
  turn: Turn,
  site: SiteParts,
  sender: Sender,
  submission: Submission,
  judgement: Extract<Judgement, { verdict: 'valid' }>,
): void {
  const { command, items } = judgement;
  const kind = kindOf(command);
  const facts = site.facts(turn);
  const window = windowOf(kind.window(command.payload), turn.now);
  const planned = kind.plan(command.payload, items, facts);
  const standing =
    command.commandType === 'SITE_SETPOINT' ? entryOf(turn, command.payload, window) : undefined;
  const onTop = standing && !site.plan.wouldBeTold(standing, turn.now) ? toldNow(turn, site) : undefined;
  const isHeldBack = command.commandType === 'SCHEDULE' && facts.emergency !== undefined;
  const goesNow = ({ deviceId }: PlannedDispatch) => !onTop && !isHeldBack && facts.isLive(deviceId);

  // 1. the acknowledgement
  const waiting = planned.filter((dispatch) => !goesNow(dispatch));
  const waitingItems = new Set(waiting.flatMap((dispatch) => dispatch.items));
  const isPartial = items.some((judged) => judged.refusal);
  const acknowledgement: Acknowledgement = {
    status: isPartial ? 'PARTIAL' : waiting.length > 0 ? 'QUEUED' : 'ACCEPTED',
    commandType: command.commandType,
    ...(items.length > 0 ? { results: resultsOf(items, (item) => waitingItems.has(item)) } : {}),
  };

  // 2. the log row, and the messageId's one effect
  const entry = logRow(turn, sender, submission, acknowledgement);
  const sequence = site.commands.insert(turn, {
    ...entry,
    ...kind.logColumns(command.payload),
    decision: JSON.stringify(acceptedDecision(command, items, { planned, onTop, facts })),
    status: 'PENDING',
    dispatched_at_ms: waiting.length < planned.length ? turn.now : null,
    valid_from_ms: window.validFromMs,
    valid_until_ms: window.validUntilMs,
  });
  bind(turn, site, sender, submission, { id: entry.id, sequence }, acknowledgement);

  // 3. its events
  answer(turn, site, subjectOf(sender, submission, entry.id), acknowledgement, judgement.violations);

  // 4. what goes to the plant, and what waits for it
  if (standing) enter(turn, site, { ...standing, sequence });
  else if (command.commandType === 'SCHEDULE' && isScheduleSet(command.payload)) {
    setSchedule(turn, site, command.payload, { sequence, id: entry.id });
  } else for (const one of planned) dispatch(turn, site, sequence, one, window);
  if (command.commandType === 'DEVICE_COMMAND') {
    site.commanded.note(turn, sequence, batteryDemands(items, facts));
  }
  if (command.commandType === 'EMERGENCY') {
    site.commands.noteEmergency(turn, sequence);
    beginEmergency(turn, site, { sequence, type: command.payload.type }, entry.id);
  }
  if (command.commandType === 'SCHEDULE' && !isScheduleSet(command.payload)) {
    passSchedules(turn, site);
    const cancelled = site.schedules.find(command.payload.scheduleId);
    if (cancelled) cancelSchedule(turn, site, cancelled.commandSequence);
  }
  if (command.commandType === 'CONFIG') {
    applyConfig(turn, site, mergedConfig(command.payload, facts.config), { sequence, id: entry.id });
  }
  if (waiting.length > 0) makeRoom(turn, site);
}

/** A setpoint's place in the plan: it begins when it is recorded, at the earliest. */
function entryOf(
  turn: Turn,
  { priority }: SiteSetpoint,
  { notBeforeMs, validUntilMs }: DispatchWindow,
): Omit<PlanEntry, 'sequence'> {
  return { level: priority, startsAtMs: Math.max(turn.now, notBeforeMs), endsAtMs: validUntilMs };
}

function toldNow(turn: Turn, site: SiteParts): OnTop {
  const { target } = site.plan.at(turn.now);
  if (target.by === 'mode') return target;
  const commandId = site.commands.find(target.sequence)?.id;
  return target.by === 'slot'
    ? { by: 'slot', commandId, slotIndex: target.slotIndex }
    : { by: target.by, commandId };
}

function answer(
  turn: Turn,
  site: SiteParts,
  about: EventSubject,
  acknowledgement: Acknowledgement,
  violations: readonly Violation[],
): void {
  const { status, rejectionCode } = acknowledgement;
  if (status !== 'REJECTED') site.counts.add(turn, `acknowledgements/${status}/`);
  else if (rejectionCode) site.counts.add(turn, `acknowledgements/REJECTED/${rejectionCode}`);
  site.outbox.emit(turn, acknowledgementEvent(about, acknowledgement, turn.now));
  const keysFor = site.keysToldOf(turn, about.keyId);
  raise(turn, site, 'CONSTRAINT_VIOLATION', violationAlarms(about, violations, keysFor, turn.now));
}

function bind(
  turn: Turn,
  site: SiteParts,
  sender: Sender,
  submission: Submission,
  command: { id: string; sequence: number },
  acknowledgement: Acknowledgement,
): void {
  site.messageIds.remember(turn, sender.keyId, submission.messageId, {
    command_id: command.id,
    command_sequence: command.sequence,
    digest: publishDigest(submission.routingKey, compact(submission.payloadText)),
    acknowledgement: signableJson(acknowledgement),
  });
}

function subjectOf(sender: Sender, submission: Submission, commandId: string): EventSubject {
  return {
    commandId,
    keyId: sender.keyId,
    correlationId: submission.correlationId ?? submission.messageId,
    commandType: FAMILY_RULES[submission.family].commandType,
  };
}

function logRow(
  turn: Turn,
  sender: Sender,
  submission: Submission,
  acknowledgement: Acknowledgement,
): Omit<NewCommand, 'status'> {
  return {
    id: crypto.randomUUID(),
    key_id: sender.keyId,
    key_prefix: sender.keyPrefix,
    message_id: submission.messageId,
    correlation_id: submission.correlationId,
    command_type: acknowledgement.commandType,
    routing_key: submission.routingKey,
    payload: compact(submission.payloadText),
    message: acknowledgement.message ?? null,
    results: acknowledgement.results ? signableJson(acknowledgement.results) : null,
    source: submission.source,
    created_at_ms: turn.now,
    acked_at_ms: turn.now,
  };
}
