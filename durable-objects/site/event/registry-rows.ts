/** What a site has to say to D1, as outbox rows: status that lists need, alerts, audit rows. */
import type { AlertEntry, AuditEntry, RegistryWrite, StatusChange } from '../../registry/entries.ts';
import type { NewOutboxRow } from './rows.ts';

/** The lane of a key's Vhost is the key's id; this one leads to D1. */
export const REGISTRY_LANE = 'registry';

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

/** An alert that began, on its way to D1. */
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

/** What has become of one. */
export function alertChangeRow(id: string, columns: StatusChange['columns'], now: number): NewOutboxRow {
  return statusRow('alert', id, columns, now);
}

/** An audit row on its way to D1; `cause`: told once, however often it goes. */
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
