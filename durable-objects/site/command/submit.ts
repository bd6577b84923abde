/**
 * Recording one submission: its judgement becomes a log row, the messageId's one effect, an acknowledgement and the
 * dispatches, all inside the caller's transaction (rule 3, rule 5).
 */

import { type Command, targetSignedKw } from '../../../protocol/command.ts';
import { compact, signableJson } from '../../../protocol/compact-json.ts';
import type { ModeOverride } from '../../../protocol/config.ts';
import type { AcknowledgementStatus } from '../../../protocol/enums.ts';
import type { Acknowledgement } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import type { Submission, SubmissionBatch } from '../../exchange.ts';
import type { Effects } from '../effects.ts';
import { acknowledgementEvent, type EventSubject, violationAlarms } from '../events.ts';
import type { DispatchRow } from '../schema.ts';
import type { SiteState } from '../state.ts';
import type { NewCommand } from '../storage.ts';
import { ackDue, dispatchWindow, type PlannedDispatch, planDispatches, waitingDue } from './dispatch.ts';
import { type Judgement, judge, rejection, resultsOf, windowOf } from './pipeline.ts';

type Sender = Pick<SubmissionBatch, 'siteId' | 'keyId' | 'keyPrefix'>;

export function recordSubmission(
  state: SiteState,
  effects: Effects,
  sender: Sender,
  submission: Submission,
  now: number,
): void {
  const received = state.storage.receivedMessage(sender.keyId, submission.messageId);
  const logged = received && state.storage.command(received.command_sequence);
  const earlier = logged && {
    routingKey: logged.routing_key,
    payloadText: logged.payload,
    acknowledgement: JSON.parse(received.acknowledgement) as Acknowledgement,
  };
  const judgement = judge(submission, earlier, state.facts(now), now);
  switch (judgement.verdict) {
    case 'repeat':
      effects.emit(
        acknowledgementEvent(
          subject(sender, submission, received?.command_sequence ?? 0),
          judgement.acknowledgement,
          now,
        ),
      );
      return;
    case 'rejected':
      recordRejection(state, effects, sender, submission, judgement, now);
      return;
    case 'valid':
      recordCommand(state, effects, sender, submission, judgement, now);
  }
}

function recordRejection(
  state: SiteState,
  effects: Effects,
  sender: Sender,
  submission: Submission,
  judgement: Extract<Judgement, { verdict: 'rejected' }>,
  now: number,
): void {
  const acknowledgement = rejection(submission, judgement);
  const sequence = state.storage.insertCommand({
    ...logRow(sender, submission, acknowledgement, now),
    status: 'REJECTED',
    rejection_code: judgement.refusal.rejectionCode,
    finished_at_ms: now,
  });
  if (judgement.binding) bind(state, sender, submission, sequence, acknowledgement, now);
  const about = subject(sender, submission, sequence);
  effects.emit(acknowledgementEvent(about, acknowledgement, now));
  effects.emit(...violationAlarms(about, judgement.violations, state.registry?.keyIds ?? [], now));
}

function recordCommand(
  state: SiteState,
  effects: Effects,
  sender: Sender,
  submission: Submission,
  judgement: Extract<Judgement, { verdict: 'valid' }>,
  now: number,
): void {
  const { command, items } = judgement;
  const facts = state.facts(now);
  const { notBeforeMs, expiresAtMs } = dispatchWindow(command, now);
  const planned = planDispatches(command, items, facts, state.gateway(now)?.id);
  const goesNow = (deviceId: string) => notBeforeMs <= now && state.sessions.isLive(deviceId, now);

  // 1. the acknowledgement
  const isRejected = items.some((judged) => judged.refusal);
  const isQueued = planned.some((dispatch) => !goesNow(dispatch.deviceId));
  const status: AcknowledgementStatus = isRejected ? 'PARTIAL' : isQueued ? 'QUEUED' : 'ACCEPTED';
  const waiting = new Set(planned.filter((one) => !goesNow(one.deviceId)).flatMap((one) => one.items));
  const acknowledgement: Acknowledgement = {
    status,
    commandType: command.commandType,
    ...(items.length > 0 ? { results: resultsOf(items, (item) => waiting.has(item)) } : {}),
  };

  // 2. the log row, and the messageId's one effect
  const window = windowOf(command);
  const entry = logRow(sender, submission, acknowledgement, now);
  const sequence = state.storage.insertCommand({
    ...entry,
    status: 'PENDING',
    dispatched_at_ms: planned.some((dispatch) => goesNow(dispatch.deviceId)) ? now : null,
    priority: command.commandType === 'SITE_SETPOINT' ? command.payload.priority : null,
    target: targetOf(command),
    valid_from_ms: window.fromMs ?? null,
    valid_until_ms: window.untilMs ?? null,
    target_value_kw: command.commandType === 'SITE_SETPOINT' ? targetSignedKw(command.payload) : null,
  });
  bind(state, sender, submission, sequence, acknowledgement, now);

  // 3. what it does to the site
  if (command.commandType === 'MODE_CHANGE') applyMode(state, command.payload, entry.id, sender, now);
  for (const dispatch of planned) {
    const row = dispatchRow(dispatch, sequence, notBeforeMs, expiresAtMs, goesNow(dispatch.deviceId), now);
    state.storage.insertDispatch(row);
    if (row.state === 'SENT') effects.send(row);
  }

  // 4. its events
  const about = subject(sender, submission, sequence);
  effects.emit(acknowledgementEvent(about, acknowledgement, now));
  effects.emit(...violationAlarms(about, judgement.violations, state.registry?.keyIds ?? [], now));
}

function dispatchRow(
  planned: PlannedDispatch,
  sequence: number,
  notBeforeMs: number,
  expiresAtMs: number | null,
  goesNow: boolean,
  now: number,
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
    due_at_ms: goesNow ? ackDue(expiresAtMs, now) : waitingDue(window, now),
    reason: null,
  };
}

/** Without validUntil a mode is the site's operating mode and ends an override; with one it is the override [C-7.7]. */
function applyMode(
  state: SiteState,
  payload: Extract<Command, { commandType: 'MODE_CHANGE' }>['payload'],
  commandId: string,
  sender: Sender,
  now: number,
): void {
  if (!payload.validUntil) {
    state.config = { ...state.config, operatingMode: payload.mode };
    state.modeOverride = null;
    state.storage.setFact('config', state.config);
    state.storage.setFact('modeOverride', null);
    return;
  }
  const override: ModeOverride = {
    mode: payload.mode,
    reason: payload.reason ?? null,
    validFrom: formatInstant(now),
    validUntil: payload.validUntil,
    commandId,
    setBy: sender.keyPrefix,
  };
  state.modeOverride = override;
  state.storage.setFact('modeOverride', override);
}

function bind(
  state: SiteState,
  sender: Sender,
  submission: Submission,
  sequence: number,
  acknowledgement: Acknowledgement,
  now: number,
): void {
  state.storage.rememberMessage(
    sender.keyId,
    submission.messageId,
    {
      command_sequence: sequence,
      acknowledgement: signableJson(acknowledgement),
    },
    now,
  );
}

function subject(sender: Sender, submission: Submission, sequence: number): EventSubject {
  return {
    siteId: sender.siteId,
    sequence,
    keyId: sender.keyId,
    correlationId: submission.correlationId ?? submission.messageId,
    commandType: FAMILY_RULES[submission.family].commandType,
  };
}

function logRow(
  sender: Sender,
  submission: Submission,
  acknowledgement: Acknowledgement,
  now: number,
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
    created_at_ms: now,
    acked_at_ms: now,
    dispatched_at_ms: null,
    finished_at_ms: null,
  };
}

function targetOf(command: Command): string {
  if (command.commandType !== 'DEVICE_COMMAND') return 'SITE';
  return command.payload.commands.map((item) => item.deviceId).join(',');
}
