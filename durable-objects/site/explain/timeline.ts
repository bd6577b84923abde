/** The timeline of a command, from its log row, its dispatches and its plan entry [C-13.2]; the Vhost has its events. */
import { EXECUTION_STATUSES, type ExecutionStatus } from '../../../protocol/enums.ts';
import type { Acknowledgement } from '../../../protocol/event.ts';
import type { UntimedStep } from '../../../protocol/timeline.ts';
import type { Asker, CommandLife } from '../../ask-rpc.ts';
import type { Clock } from '../../object/clock.ts';
import type { JudgementInputs } from '../command/inputs.ts';
import { asShown, logEntryOf } from '../command/log.ts';
import type { MessageIdRows } from '../command/message-ids.ts';
import type { Decision } from '../command/pipeline.ts';
import type { CommandRow, CommandRows } from '../command/rows.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { DispatchRow } from '../dispatch/rows.ts';
import { acknowledgementId, executionId } from '../event/event-rows.ts';
import type { Plan } from '../plan/plan.ts';
import type { Span } from '../plan/state.ts';
import { isSeen } from '../sight.ts';
import { plantMessages } from './plant-messages.ts';

/** How many times of being displaced a timeline shows: the latest ones. */
const SPANS = 20;

export interface TimelineSources {
  clock: Pick<Clock, 'now'>;
  commandRows: CommandRows;
  messageIds: MessageIdRows;
  dispatches: Dispatches;
  plan: Plan;
}

/** JSON of a `CommandLife`; null: no such command, or one that the asker does not see. */
export function readTimeline(
  { clock, commandRows, messageIds, dispatches, plan }: TimelineSources,
  { siteId, commandId, asker }: { siteId: string; commandId: string; asker: Asker },
): string | null {
  const found = commandRows.log.find(commandId);
  if (!found || !isSeen(asker, found.partner_id)) return null;
  const command = asShown(found, asker);
  const isActive = plan.state.entries.find(command.sequence)?.obeyedSinceMs != null;
  const spans =
    command.spans === null ? plan.state.spansOf(command.sequence, clock.now()) : JSON.parse(command.spans);
  const acknowledged = messageIds.find(command.key_id, command.message_id);
  const own = dispatches.rows.ofCommand(command.sequence);
  const steps = timelineOf(command, {
    dispatches: own,
    ...{ spans, isActive },
    acknowledgement:
      acknowledged?.command_id === command.id ? statusOf(acknowledged.acknowledgement) : undefined,
  });
  const inputs = command.inputs === null ? undefined : (JSON.parse(command.inputs) as JudgementInputs);
  return JSON.stringify({
    ...{ keyId: command.key_id, command: logEntryOf(siteId, command).text },
    ...{ steps, events: eventsOf(command) },
    signed: inputs ? { verdict: inputs.signature, timestampMs: inputs.timestampMs } : null,
    messages: plantMessages(asker, command, inputs, own),
  } satisfies CommandLife);
}

function statusOf(acknowledgement: string): string {
  return (JSON.parse(acknowledgement) as Acknowledgement).status;
}

interface Lived {
  dispatches: readonly DispatchRow[];
  spans: readonly Span[];
  /** Whether the plant follows the setpoint now. */
  isActive: boolean;
  /** The status of the acknowledgement; undefined: it is not stored any more. */
  acknowledgement: string | undefined;
}

function timelineOf(
  command: CommandRow,
  { dispatches, spans, isActive, acknowledgement }: Lived,
): UntimedStep[] {
  const steps: UntimedStep[] = [];
  const add = (step: UntimedStep['step'], atMs: number | null, more: Partial<UntimedStep> = {}) => {
    if (atMs !== null) steps.push({ step, atMs, ...more });
  };
  const { created_at_ms: recordedAtMs, finished_at_ms: finishedAtMs } = command;
  const isRejected = command.status === 'REJECTED';
  const decision = command.decision === null ? undefined : (JSON.parse(command.decision) as Decision);
  add('PUBLISHED', command.published_at_ms === null ? null : Math.min(command.published_at_ms, recordedAtMs));
  add('RECORDED', recordedAtMs);
  add('JUDGED', decision ? recordedAtMs : null, decision ? { reason: decision.stage } : {});
  add('ACKNOWLEDGED', command.acked_at_ms, {
    reason: command.rejection_code ?? acknowledgement ?? 'accepted',
  });
  if (!isRejected) add('PLANNED', recordedAtMs, plannedAs(decision));
  // Of several devices no single one is named.
  const first = dispatches.length === 1 ? dispatches[0] : undefined;
  add('DISPATCHED', command.dispatched_at_ms, {
    ...(first ? { by: first.device_id, attempt: first.tries } : {}),
  });
  add('DEVICE_RECEIVED', command.started_at_ms, first ? { by: first.device_id } : {});
  add('DEVICE_STARTED', command.device_started_at_ms);
  const shown = spans.slice(-SPANS);
  shown.forEach(([fromMs, untilMs], index) => {
    if (index > 0 || shown.length < spans.length) add('RESUMED', fromMs);
    const isLast = index === shown.length - 1;
    if (!isLast || !isActive) add('DISPLACED', isLast && untilMs === finishedAtMs ? null : untilMs);
  });
  if (command.actual_value_kw !== null)
    add('MEASURED', finishedAtMs, {
      reason: `${command.actual_value_kw} kW of ${command.target_value_kw} kW`,
    });
  if (!isRejected) add('ENDED', finishedAtMs, { reason: endOf(command) });
  return steps;
}

/** The acknowledgement of the command, and what is sent when it starts and when it ends. */
function eventsOf(command: CommandRow): CommandLife['events'] {
  const { id, status } = command;
  const all: { name: string; messageId: string; madeAtMs: number | null }[] = [
    { name: 'acknowledgement', messageId: acknowledgementId(id), madeAtMs: command.acked_at_ms },
  ];
  const execution = (one: ExecutionStatus, madeAtMs: number | null) =>
    all.push({ name: `execution ${one}`, messageId: executionId(id, one), madeAtMs });
  execution('EXECUTING', command.started_at_ms);
  const ended = EXECUTION_STATUSES.find((one) => one === status && one !== 'EXECUTING');
  if (ended) execution(ended, command.finished_at_ms);
  return all.flatMap(({ madeAtMs, ...event }) => (madeAtMs === null ? [] : [{ ...event, madeAtMs }]));
}

function plannedAs(decision: Decision | undefined): { reason?: string } {
  const { isOnTop, level } = (decision?.facts ?? {}) as { isOnTop?: boolean; level?: string };
  if (isOnTop === undefined) return {};
  return { reason: isOnTop ? `on top, as ${level}` : `waits, as ${level}` };
}

function endOf({ status, reason }: CommandRow): string {
  return reason === null ? status : `${status}: ${reason}`;
}
