/**
 * What the outbox holds as rows: events for partners and changes for the registry (D1). A messageId is derived from the
 * event's cause, so a repeat carries the same id [C-8.1].
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { ExecutionStatus } from '../../../protocol/enums.ts';
import type { Acknowledgement, Alarm, Execution } from '../../../protocol/event.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { CommandType, EventKind } from '../../../protocol/routing-keys.ts';
import type { AlertEntry, AuditEntry, RegistryWrite, StatusChange } from '../../../registry/entries.ts';
import type { EventKey } from '../../../registry/plant-copy.ts';
import type { OutboxEvent, PassingEvent } from '../../rpc.ts';
import { derivedUuid } from '../../secrets/hmac.ts';
import { isSeen } from '../sight.ts';
import type { NewOutboxRow, OutboxRow } from './rows.ts';

export interface EventSubject {
  /** The id of the command, the cause of all its events. */
  commandId: string;
  keyId: string;
  partnerId: string;
  /**
   * The correlationId of the command's events for the key that sent it: the one of the request, or its messageId
   * if the request had none. Other keys get none [C-8.1].
   */
  correlationId: string;
  commandType: CommandType;
}

/** The messageId of the acknowledgement of a command. */
export function acknowledgementId(commandId: string): string {
  return derivedUuid(`ack|${commandId}`);
}

/** The messageId of an execution event of a command. */
export function executionId(commandId: string, status: ExecutionStatus): string {
  return derivedUuid(`execution|${commandId}|${status}`);
}

export function acknowledgementEvent(
  subject: EventSubject,
  payload: Acknowledgement,
  now: number,
): NewOutboxRow {
  return {
    lane: subject.keyId,
    kind: 'ack',
    message_id: acknowledgementId(subject.commandId),
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
    message_id: executionId(subject.commandId, status),
    correlation_id: subject.correlationId,
    at_ms: now,
    payload: signableJson(payload),
  };
}

/** The content of an alarm about a command; by default the alarm is a WARNING and RAISED now. */
export type AlarmContent = Pick<Alarm, 'type' | 'message'> & Partial<Alarm>;

/** What a key reads in the alarm of another partner's command: that a limit of the site was exceeded, and which [C-15.1]. */
function hidden({ type, constraint, limit, unit }: AlarmContent): AlarmContent {
  if (type !== 'CONSTRAINT_VIOLATION')
    return { type, message: OF_ANOTHER[type] ?? 'about a command of another partner' };
  return { type, constraint, limit, unit, message: `a command of another partner exceeds ${constraint}` };
}

const OF_ANOTHER: Partial<Record<Alarm['type'], string>> = {
  SETPOINT_DEVIATION: 'the plant does not follow a command of another partner',
  COMMAND_EXPIRED: 'a command of another partner expired before it could be delivered to the device',
};

/**
 * The rows of an alarm about a command, one for each key that gets it; a key of another partner gets less of it. The same
 * cause gives the same alarm id.
 */
export function commandAlarm(
  subject: EventSubject,
  cause: string,
  content: AlarmContent,
  keys: readonly EventKey[],
  now: number,
): NewOutboxRow[] {
  const alarmId = derivedUuid(`alarm|${cause}`);
  const common = { alarmId, severity: 'WARNING', status: 'RAISED', raisedAt: formatInstant(now) } as const;
  const full = signableJson({ ...common, commandType: subject.commandType, ...content } satisfies Alarm);
  const less = signableJson({ ...common, ...hidden(content) } satisfies Alarm);
  const lanes = new Map([
    [subject.keyId, full],
    ...keys.map((key) => [key.id, isSeen(key, subject.partnerId) ? full : less] as const),
  ]);
  return [...lanes].map(([lane, payload]) => ({
    lane,
    kind: 'alarm',
    message_id: alarmId,
    // No other partner may see this partner's correlationId.
    correlation_id: lane === subject.keyId ? subject.correlationId : null,
    at_ms: now,
    payload,
  }));
}

/**
 * A state that has an alarm while it lasts. `deviceId`: a sub-device's external id, or the id of an MQTT device
 * that no sub-device is linked to; absent if the state is one of the whole site.
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

/**
 * The severity of each alarm, its message when the state begins (`raised`) and its message when the state
 * ends (`cleared`). The message about a device begins with its `deviceId`, followed by this text.
 */
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
  return alarmForKeys(payload, keyIds, now);
}

/** An alarm that no command caused, for each key. RAISED and CLEARED have different ids. */
export function alarmForKeys(alarm: Alarm, keyIds: readonly string[], now: number): NewOutboxRow[] {
  const payload = signableJson(alarm);
  return keyIds.map((lane) => ({
    lane,
    kind: 'alarm',
    message_id: derivedUuid(`${alarm.alarmId}|${alarm.status}`),
    correlation_id: null,
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

// for the registry

/** The lane to D1. A Vhost's lane is the id of its key. */
export const REGISTRY_LANE = 'registry';

function registryRow(kind: RegistryWrite['kind'], id: string, content: object, now: number): NewOutboxRow {
  const payload = JSON.stringify(content);
  return { lane: REGISTRY_LANE, kind, message_id: id, correlation_id: null, at_ms: now, payload };
}

/** A change of a row in D1: of a plant, sub-device, device or alert; `columns`: what changes. */
export function statusRow(
  kind: StatusChange['kind'],
  id: string,
  columns: StatusChange['columns'],
  now: number,
): NewOutboxRow {
  return registryRow(kind, id, columns, now);
}

/** A new alert for D1. */
export function alertRow(alert: AlertEntry, now: number): NewOutboxRow {
  return registryRow('alert-begun', alert.id, alert, now);
}

/** An audit row for D1. `cause` identifies it: the row is stored once even if it is sent again. */
export function auditRow(cause: string, entry: AuditEntry, now: number): NewOutboxRow {
  return registryRow('audit', cause, entry, now);
}

export function toRegistryWrite({ kind, message_id: id, payload, at_ms: atMs }: NewOutboxRow): RegistryWrite {
  if (kind === 'audit') return { kind, cause: id, entry: JSON.parse(payload) as AuditEntry, atMs };
  if (kind === 'alert-begun') return { kind, entry: JSON.parse(payload) as AlertEntry };
  return { kind: kind as StatusChange['kind'], id, columns: JSON.parse(payload) };
}
