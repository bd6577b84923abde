/** Events of a site as outbox rows. Their messageIds are derived from their cause: a repeat carries the same one [C-8.1]. */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { CommandType, ExecutionStatus } from '../../../protocol/enums.ts';
import type { Acknowledgement, Alarm, Execution } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { OutboxEvent, PassingEvent } from '../../rpc.ts';
import { derivedUuid } from '../../secrets/hmac.ts';
import { type Violation, violationText } from '../command/refusal.ts';
import type { NewOutboxRow, OutboxRow } from './rows.ts';

export interface EventSubject {
  /** The command's own id, the one cause of all its events. */
  commandId: string;
  keyId: string;
  /** The correlationId echoed: the request's, or its messageId when it had none [C-8.1]. */
  correlationId: string;
  commandType: CommandType;
}

export function acknowledgementEvent(
  subject: EventSubject,
  payload: Acknowledgement,
  now: number,
): NewOutboxRow {
  return {
    lane: subject.keyId,
    kind: 'ack',
    message_id: derivedUuid(`ack|${subject.commandId}`),
    correlation_id: subject.correlationId,
    at_ms: now,
    payload: signableJson(payload),
  };
}

const MEASURED_FIELDS = [
  'actualValueKw',
  'targetValueKw',
  'deviationKw',
  'actualValueKwh',
  'targetValueKwh',
  'deviationKwh',
] as const;

/** What an execution tells beside its status. */
export type ExecutionDetails = Partial<Record<(typeof MEASURED_FIELDS)[number], number | null>> & {
  reason?: string | null;
};

export function executionEvent(
  subject: EventSubject,
  status: ExecutionStatus,
  details: ExecutionDetails,
  now: number,
): NewOutboxRow {
  const payload: Execution = { commandType: subject.commandType, status };
  for (const field of MEASURED_FIELDS) payload[field] = details[field] ?? undefined;
  if (details.reason) payload.reason = details.reason;
  return {
    lane: subject.keyId,
    kind: 'execution',
    message_id: derivedUuid(`execution|${subject.commandId}|${status}`),
    correlation_id: subject.correlationId,
    at_ms: now,
    payload: signableJson(payload),
  };
}

/** Each limit that a command broke, once; `keysFor` says who is told of it [C-8.1], [C-8.3]. */
export function violationAlarms(
  subject: EventSubject,
  violations: readonly Violation[],
  keysFor: (constraint: string) => readonly string[],
  now: number,
  /** A slot of a schedule that goes on is skipped. */
  outcome: 'rejected' | 'skipped' = 'rejected',
): NewOutboxRow[] {
  const byConstraint = new Map(violations.map((violation) => [violation.constraint, violation]));
  return [...byConstraint.values()].flatMap((violation) => {
    const { constraint, limit, value, unit, deviceId, slot } = violation;
    const alarm: Omit<Alarm, 'alarmId'> = {
      type: 'CONSTRAINT_VIOLATION',
      severity: 'WARNING',
      status: 'RAISED',
      message: `${subject.commandType} ${outcome}: ${violationText(violation)}`,
      commandType: subject.commandType,
      constraint,
      limit,
      value,
      unit,
      raisedAt: formatInstant(now),
      ...(deviceId ? { deviceId } : {}),
    };
    const keyIds = keysFor(constraint);
    // Each slot of a schedule that is skipped is a thing of its own.
    const what = slot === undefined ? constraint : `${slot}|${constraint}`;
    return alarmEvents(`violation|${subject.commandId}|${what}`, alarm, subject, keyIds, now);
  });
}

/** A command that its device was never told of, until it was too late. */
export function expiryAlarm(
  subject: EventSubject,
  deviceId: string | undefined,
  keyIds: readonly string[],
  now: number,
): NewOutboxRow[] {
  const alarm: Omit<Alarm, 'alarmId'> = {
    type: 'COMMAND_EXPIRED',
    severity: 'WARNING',
    status: 'RAISED',
    message: `${subject.commandType} expired before its device could be told`,
    commandType: subject.commandType,
    raisedAt: formatInstant(now),
    ...(deviceId ? { deviceId } : {}),
  };
  return alarmEvents(`expiry|${subject.commandId}|${deviceId}`, alarm, subject, keyIds, now);
}

/** A setpoint that stood on after its verdict, or a slot of a schedule, that its gateway does not take any more. */
export function droppedAlarm(
  subject: EventSubject,
  reason: string | null,
  keyIds: readonly string[],
  now: number,
  slot?: number,
): NewOutboxRow[] {
  const what = slot === undefined ? '' : ` slot ${slot}`;
  const alarm: Omit<Alarm, 'alarmId'> = {
    type: 'SETPOINT_DEVIATION',
    severity: 'WARNING',
    status: 'RAISED',
    message: `${subject.commandType}${what} stands no longer: ${reason ?? 'FAILED'}`,
    commandType: subject.commandType,
    raisedAt: formatInstant(now),
  };
  return alarmEvents(`dropped|${subject.commandId}${what}`, alarm, subject, keyIds, now);
}

/** A setpoint that the plant did not follow, as far as was measured. */
export function deviationAlarm(
  subject: EventSubject,
  { actualValueKw, targetValueKw, actualValueKwh, targetValueKwh }: ExecutionDetails,
  keyIds: readonly string[],
  now: number,
): NewOutboxRow[] {
  const [value, limit, unit] =
    typeof actualValueKwh === 'number'
      ? [actualValueKwh, targetValueKwh ?? 0, 'kWh']
      : [actualValueKw ?? 0, targetValueKw ?? 0, 'kW'];
  const alarm: Omit<Alarm, 'alarmId'> = {
    type: 'SETPOINT_DEVIATION',
    severity: 'WARNING',
    status: 'RAISED',
    message: `${subject.commandType} deviated: ${value} ${unit} measured, ${limit} ${unit} asked for`,
    commandType: subject.commandType,
    limit,
    value,
    unit,
    raisedAt: formatInstant(now),
  };
  return alarmEvents(`deviation|${subject.commandId}`, alarm, subject, keyIds, now);
}

/**
 * What is so now; `deviceId` is a sub-device's external id, or where it is about an MQTT device that serves more than
 * one, that device's own; absent where it is the site's.
 */
export interface State {
  type: Extract<
    Alarm['type'],
    | 'SITE_OFFLINE'
    | 'DEVICE_OFFLINE'
    | 'DEVICE_FAULT'
    | 'METER_STALE'
    | 'DEVICE_SUSPENDED'
    | 'FALLBACK_ENGAGED'
  >;
  deviceId?: string;
}

/** `alarmId`: absent in one that older code raised. */
export type OpenAlarm = State & { raisedAtMs: number; alarmId?: string };

const STATE_ALARMS: Record<State['type'], Pick<Alarm, 'severity'> & { what: string }> = {
  SITE_OFFLINE: { severity: 'CRITICAL', what: 'the site has no live session' },
  DEVICE_OFFLINE: { severity: 'WARNING', what: 'sends nothing' },
  DEVICE_FAULT: { severity: 'CRITICAL', what: 'reports a fault' },
  METER_STALE: { severity: 'WARNING', what: 'has told no register for 15 minutes' },
  FALLBACK_ENGAGED: { severity: 'WARNING', what: 'the site runs by its fallback, as far as can be told' },
  DEVICE_SUSPENDED: { severity: 'CRITICAL', what: 'is suspended: it is not let in' },
};

/** An alarm of a state, raised or, with the moment of its end, cleared. */
export function standingAlarmEvents(
  { type, deviceId, raisedAtMs, alarmId = legacyAlarmId(type, deviceId, raisedAtMs) }: OpenAlarm,
  clearedAtMs: number | null,
  keyIds: readonly string[],
  now: number,
): NewOutboxRow[] {
  const { severity, what } = STATE_ALARMS[type];
  const status = clearedAtMs === null ? 'RAISED' : 'CLEARED';
  const payload: Alarm = {
    alarmId,
    type,
    severity,
    status,
    message: `${deviceId ? `${deviceId} ` : ''}${what}${clearedAtMs === null ? '' : ': over'}`,
    raisedAt: formatInstant(raisedAtMs),
    ...(deviceId ? { deviceId } : {}),
    ...(clearedAtMs === null ? {} : { clearedAt: formatInstant(clearedAtMs) }),
  };
  return keyIds.map((lane) => ({
    lane,
    kind: 'alarm',
    message_id: derivedUuid(`${alarmId}|${status}`),
    correlation_id: null,
    at_ms: now,
    payload: signableJson(payload),
  }));
}

/** In the place of an id that was not kept. */
function legacyAlarmId(type: string, deviceId: string | undefined, raisedAtMs: number): string {
  return derivedUuid(`alarm|${type}|${deviceId ?? ''}|${raisedAtMs}`);
}

function alarmEvents(
  cause: string,
  alarm: Omit<Alarm, 'alarmId'>,
  subject: EventSubject,
  keyIds: readonly string[],
  now: number,
): NewOutboxRow[] {
  const alarmId = derivedUuid(`alarm|${cause}`);
  const payload = signableJson({ alarmId, ...alarm } satisfies Alarm);
  return [...new Set([subject.keyId, ...keyIds])].map((lane) => ({
    lane,
    kind: 'alarm',
    message_id: alarmId,
    // Another partner's correlationId is nobody else's business.
    correlation_id: lane === subject.keyId ? subject.correlationId : null,
    at_ms: now,
    payload,
  }));
}

export function toEvent(row: OutboxRow): OutboxEvent {
  return {
    sequence: row.sequence,
    kind: row.kind as EventKind,
    messageId: row.message_id,
    correlationId: row.correlation_id,
    atMs: row.at_ms,
    payloadText: row.payload,
  };
}

/** Told once and never repeated: its id is its own. */
export function telemetryEvent(payload: unknown, now: number): PassingEvent {
  return {
    kind: 'telemetry',
    messageId: crypto.randomUUID(),
    correlationId: null,
    atMs: now,
    payloadText: signableJson(payload),
  };
}
