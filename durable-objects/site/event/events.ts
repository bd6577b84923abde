/** Events of a site as outbox rows. Their messageIds are derived from their cause: a repeat carries the same one [C-8.1]. */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { CommandType, ExecutionStatus } from '../../../protocol/enums.ts';
import type { Acknowledgement, Alarm, Execution } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { StatusChange } from '../../registry/status-lane.ts';
import type { OutboxEvent, PassingEvent } from '../../rpc.ts';
import { derivedUuid } from '../../secrets/hmac.ts';
import type { Violation } from '../command/refusal.ts';
import type { NewOutboxRow, OutboxRow } from './rows.ts';

/** The lane of a key's Vhost is the key's id; this one leads to D1. */
export const REGISTRY_LANE = 'registry';

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

export function executionEvent(
  subject: EventSubject,
  status: ExecutionStatus,
  details: { targetValueKw?: number | null; reason?: string | null },
  now: number,
): NewOutboxRow {
  const payload: Execution = { commandType: subject.commandType, status };
  if (details.targetValueKw !== undefined && details.targetValueKw !== null) {
    payload.targetValueKw = details.targetValueKw;
  }
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

/** Each limit that a command broke, once, told to every key that may see the plant [C-8.1]. */
export function violationAlarms(
  subject: EventSubject,
  violations: readonly Violation[],
  keyIds: readonly string[],
  now: number,
): NewOutboxRow[] {
  const byConstraint = new Map(violations.map((violation) => [violation.constraint, violation]));
  return [...byConstraint.values()].flatMap((violation, index) => {
    const { constraint, limit, value, unit, deviceId } = violation;
    const alarm: Omit<Alarm, 'alarmId'> = {
      type: 'CONSTRAINT_VIOLATION',
      severity: 'WARNING',
      status: 'RAISED',
      message: `${subject.commandType} rejected: ${value} ${unit} exceeds ${constraint} ${limit} ${unit}`,
      commandType: subject.commandType,
      constraint,
      limit,
      value,
      unit,
      raisedAt: formatInstant(now),
      ...(deviceId ? { deviceId } : {}),
    };
    return alarmEvents(`violation|${subject.commandId}|${index}`, alarm, subject, keyIds, now);
  });
}

/** A command that its device was never told of, until it was too late. */
export function expiryAlarm(
  subject: EventSubject,
  deviceId: string,
  keyIds: readonly string[],
  now: number,
): NewOutboxRow[] {
  const alarm: Omit<Alarm, 'alarmId'> = {
    type: 'COMMAND_EXPIRED',
    severity: 'WARNING',
    status: 'RAISED',
    message: `${subject.commandType} expired before its device could be told`,
    commandType: subject.commandType,
    deviceId,
    raisedAt: formatInstant(now),
  };
  return alarmEvents(`expiry|${subject.commandId}|${deviceId}`, alarm, subject, keyIds, now);
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

/** A status that lists need, on its way to D1; the row's payload is its columns. */
export function statusRow(
  kind: StatusChange['kind'],
  id: string,
  columns: StatusChange['columns'],
  now: number,
): NewOutboxRow {
  return {
    lane: REGISTRY_LANE,
    kind,
    message_id: id,
    correlation_id: null,
    at_ms: now,
    payload: JSON.stringify(columns),
  };
}

export function toStatusChange(row: OutboxRow): StatusChange {
  return { kind: row.kind as StatusChange['kind'], id: row.message_id, columns: JSON.parse(row.payload) };
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
