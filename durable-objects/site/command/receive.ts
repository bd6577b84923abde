/**
 * Recording one submission: its judgement becomes a log row, the messageId's one effect, an acknowledgement and the
 * dispatches, all in the caller's turn (rule 3, rule 5).
 */
import { compact, signableJson } from '../../../protocol/compact-json.ts';
import type { Acknowledgement } from '../../../protocol/event.ts';
import { FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import type { Submission, SubmissionBatch } from '../../rpc.ts';
import { ackDue, type DispatchWindow, waitingDue, windowOf } from '../dispatch/dispatch.ts';
import type { DispatchRow } from '../dispatch/rows.ts';
import { sendCommand } from '../dispatch/send-command.ts';
import { acknowledgementEvent, type EventSubject, violationAlarms } from '../event/events.ts';
import type { SiteParts } from '../parts.ts';
import { rejectedPayload } from './kept-payload.ts';
import type { PlannedDispatch } from './kind/kind.ts';
import { kindOf } from './kind/kinds.ts';
import { type Judgement, judge, rejection, resultsOf } from './pipeline.ts';
import type { Violation } from './refusal.ts';
import type { NewCommand } from './rows.ts';

type Sender = Pick<SubmissionBatch, 'siteId' | 'keyId' | 'keyPrefix'>;

export function recordSubmission(turn: Turn, site: SiteParts, sender: Sender, submission: Submission): void {
  const received = site.commands.received(sender.keyId, submission.messageId);
  const logged = received && site.commands.find(received.command_sequence);
  const earlier = logged && {
    routingKey: logged.routing_key,
    payloadText: logged.payload,
    acknowledgement: JSON.parse(received.acknowledgement) as Acknowledgement,
  };
  const judgement = judge(submission, earlier, site.facts(turn), turn.now);
  switch (judgement.verdict) {
    case 'repeat': {
      const about = subjectOf(sender, submission, received?.command_sequence ?? 0);
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

function recordRejection(
  turn: Turn,
  site: SiteParts,
  sender: Sender,
  submission: Submission,
  judgement: Extract<Judgement, { verdict: 'rejected' }>,
): void {
  const acknowledgement = rejection(submission, judgement);
  const sequence = site.commands.insert(turn, {
    ...logRow(turn, sender, submission, acknowledgement),
    payload: rejectedPayload(compact(submission.payloadText)),
    status: 'REJECTED',
    rejection_code: judgement.refusal.rejectionCode,
    finished_at_ms: turn.now,
  });
  if (judgement.binding) bind(turn, site, sender, submission, sequence, acknowledgement);
  answer(turn, site, subjectOf(sender, submission, sequence), acknowledgement, judgement.violations);
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
  const goesNow = ({ deviceId }: PlannedDispatch) => window.notBeforeMs <= turn.now && facts.isLive(deviceId);

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
    status: 'PENDING',
    dispatched_at_ms: waiting.length < planned.length ? turn.now : null,
    valid_from_ms: window.validFromMs,
    valid_until_ms: window.validUntilMs,
  });
  bind(turn, site, sender, submission, sequence, acknowledgement);

  // 3. what it does to the site
  const { configuration } = site;
  kind.effect?.(turn, { configuration, commandId: entry.id, keyPrefix: sender.keyPrefix }, command.payload);
  for (const dispatch of planned) {
    const row = dispatchRow(turn, dispatch, sequence, window, goesNow(dispatch));
    site.dispatches.insert(turn, row);
    if (row.state === 'SENT') sendCommand(turn, site, row);
  }

  // 4. its events
  answer(turn, site, subjectOf(sender, submission, sequence), acknowledgement, judgement.violations);
}

function answer(
  turn: Turn,
  site: SiteParts,
  about: EventSubject,
  acknowledgement: Acknowledgement,
  violations: readonly Violation[],
): void {
  site.outbox.emit(
    turn,
    acknowledgementEvent(about, acknowledgement, turn.now),
    ...violationAlarms(about, violations, site.registry.keyIds, turn.now),
  );
}

function dispatchRow(
  turn: Turn,
  planned: PlannedDispatch,
  sequence: number,
  { notBeforeMs, expiresAtMs }: DispatchWindow,
  goesNow: boolean,
): DispatchRow {
  const window = { not_before_ms: notBeforeMs, expires_at_ms: expiresAtMs };
  return {
    cmd_id: crypto.randomUUID(),
    command_sequence: sequence,
    device_id: planned.deviceId,
    action: planned.action,
    payload: planned.payloadText,
    state: goesNow ? 'SENT' : 'WAITING',
    tries: goesNow ? 1 : 0,
    ...window,
    due_at_ms: goesNow ? ackDue(expiresAtMs, turn.now) : waitingDue(window, turn.now),
    reason: null,
  };
}

function bind(
  turn: Turn,
  site: SiteParts,
  sender: Sender,
  submission: Submission,
  sequence: number,
  acknowledgement: Acknowledgement,
): void {
  site.commands.remember(turn, sender.keyId, submission.messageId, {
    command_sequence: sequence,
    acknowledgement: signableJson(acknowledgement),
  });
}

function subjectOf(sender: Sender, submission: Submission, sequence: number): EventSubject {
  return {
    siteId: sender.siteId,
    sequence,
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
    priority: null,
    target: null,
    payload: compact(submission.payloadText),
    rejection_code: null,
    message: acknowledgement.message ?? null,
    results: acknowledgement.results ? signableJson(acknowledgement.results) : null,
    source: submission.source,
    valid_from_ms: null,
    valid_until_ms: null,
    target_value_kw: null,
    reason: null,
    created_at_ms: turn.now,
    acked_at_ms: turn.now,
    dispatched_at_ms: null,
    finished_at_ms: null,
  };
}
