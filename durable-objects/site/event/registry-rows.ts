/** Outbox rows for the registry (D1): status for lists, alerts and audit rows. */
import type { AlertEntry, AuditEntry, RegistryWrite, StatusChange } from '../../registry/entries.ts';
import type { NewOutboxRow } from './rows.ts';

/** The lane to D1. A Vhost's lane is the id of its key. */
export const REGISTRY_LANE = 'registry';

/** A status change for the lists in D1; the payload holds the changed columns. */
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

/** A new alert for D1. */
export function alertRow(alert: AlertEntry, now: number): NewOutboxRow {
  const payload = JSON.stringify(alert);
  return {
    lane: REGISTRY_LANE,
    kind: 'alert-begun',
    message_id: alert.id,
    correlation_id: null,
    at_ms: now,
    payload,
  };
}

/** A change of an alert for D1. */
export function alertChangeRow(id: string, columns: StatusChange['columns'], now: number): NewOutboxRow {
  return statusRow('alert', id, columns, now);
}

/** An audit row for D1. `cause` identifies it: the row is stored once even if it is sent again. */
export function auditRow(cause: string, entry: AuditEntry, now: number): NewOutboxRow {
  return {
    lane: REGISTRY_LANE,
    kind: 'audit',
    message_id: cause,
    correlation_id: null,
    at_ms: now,
    payload: JSON.stringify(entry),
  };
}

export function toRegistryWrite({ kind, message_id: id, payload, at_ms: atMs }: NewOutboxRow): RegistryWrite {
  if (kind === 'audit') return { kind, cause: id, entry: JSON.parse(payload) as AuditEntry, atMs };
  if (kind === 'alert-begun') return { kind, entry: JSON.parse(payload) as AlertEntry };
  return { kind: kind as StatusChange['kind'], id, columns: JSON.parse(payload) };
}
