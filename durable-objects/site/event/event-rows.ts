/** Events of a site as outbox rows. A messageId is derived from the event's cause, so a repeat carries the same id [C-8.1]. */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { CommandType, ExecutionStatus } from '../../../protocol/enums.ts';
import type { Acknowledgement, Alarm, Execution } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { OutboxEvent, PassingEvent } from '../../rpc.ts';
import { derivedUuid } from '../../secrets/hmac.ts';
import { type Violation, violationText } from '../refusal.ts';
import type { NewOutboxRow, OutboxRow } from './rows.ts';

export interface EventSubject {
  /** The id of the command, the cause of all its events. */
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

/** What an execution event carries besides its status. */
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

/** One alarm for each limit that a command broke; `keysFor` returns the keys that get it [C-8.1], [C-8.3]. */
export function violationAlarms(
  subject: EventSubject,
  violations: readonly Violation[],
  keysFor: (constraint: string) => readonly string[],
  now: number,
  /** `skipped`: a slot of a schedule, which itself goes on. */
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
    // Each skipped slot has an alarm of its own.
    const what = slot === undefined ? constraint : `${slot}|${constraint}`;
    return alarmEvents(`violation|${subject.commandId}|${what}`, alarm, subject, keyIds, now);
  });
}

/** A command expired before it was sent to its device. */
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
    message: `${subject.commandType} expired before it could be delivered to the device`,
    commandType: subject.commandType,
    raisedAt: formatInstant(now),
    ...(deviceId ? { deviceId } : {}),
  };
  return alarmEvents(`expiry|${subject.commandId}|${deviceId}`, alarm, subject, keyIds, now);
}

/** The gateway no longer follows a setpoint that had its verdict already, or it rejected a slot of a schedule. */
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
    message: `${subject.commandType}${what} is no longer active: ${reason ?? 'FAILED'}`,
    commandType: subject.commandType,
    raisedAt: formatInstant(now),
  };
  return alarmEvents(`dropped|${subject.commandId}${what}`, alarm, subject, keyIds, now);
}

/** The plant missed a setpoint, by measurement. */
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
    message: `${subject.commandType} missed: measured ${value} ${unit}, target ${limit} ${unit}`,
    commandType: subject.commandType,
    limit,
    value,
    unit,
    raisedAt: formatInstant(now),
  };
  return alarmEvents(`deviation|${subject.commandId}`, alarm, subject, keyIds, now);
}

/**
 * A state that has an alarm while it lasts. `deviceId`: a sub-device's external id, or the id of an MQTT device that
 * serves several; absent where the state is the site's.
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

export type OpenAlarm = State & { raisedAtMs: number; alarmId: string };

/** The message while the state lasts, and the one when it has ended; about a device they follow its name. */
const STATE_ALARMS: Record<State['type'], Pick<Alarm, 'severity'> & { raised: string; cleared: string }> = {
  SITE_OFFLINE: {
    severity: 'CRITICAL',
    raised: 'the site is offline: no gateway is connected',
    cleared: 'the site is online again',
  },
  DEVICE_OFFLINE: { severity: 'WARNING', raised: 'sends no data', cleared: 'sends data again' },
  DEVICE_FAULT: { severity: 'CRITICAL', raised: 'reports a fault', cleared: 'reports no fault any more' },
  METER_STALE: {
    severity: 'WARNING',
    raised: 'has sent no meter reading for 15 minutes',
    cleared: 'sends meter readings again',
  },
  FALLBACK_ENGAGED: {
    severity: 'WARNING',
    raised: 'the site probably runs its fallback',
    cleared: 'the site no longer runs its fallback',
  },
  DEVICE_SUSPENDED: {
    severity: 'CRITICAL',
    raised: 'is suspended and cannot connect',
    cleared: 'is no longer suspended',
  },
};

/** The alarm of a state for each key: RAISED, or CLEARED when `clearedAtMs` is given. */
export function standingAlarmEvents(
  { type, deviceId, raisedAtMs, alarmId }: OpenAlarm,
  clearedAtMs: number | null,
  keyIds: readonly string[],
  now: number,
): NewOutboxRow[] {
  const { severity, raised, cleared } = STATE_ALARMS[type];
  const status = clearedAtMs === null ? 'RAISED' : 'CLEARED';
  const payload: Alarm = {
    alarmId,
    type,
    severity,
    status,
    message: `${deviceId ? `${deviceId} ` : ''}${clearedAtMs === null ? raised : cleared}`,
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
    // No other partner may see this partner's correlationId.
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

/** Telemetry is sent once and never repeated, so its id is random. */
export function telemetryEvent(payload: unknown, now: number): PassingEvent {
  return {
    kind: 'telemetry',
    messageId: crypto.randomUUID(),
    correlationId: null,
    atMs: now,
    payloadText: signableJson(payload),
  };
}
