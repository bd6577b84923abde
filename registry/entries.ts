/** Updates that objects send to the registry, and audit events, which the Worker writes too. */
import type { AlertSeverity, AlertType } from '../protocol/alert.ts';
import type { AuditEventName } from '../protocol/audit-names.ts';

export interface Actor {
  type: 'USER' | 'API_KEY' | 'DEVICE' | 'SYSTEM';
  id: string;
  /** USER: the e-mail address; API_KEY: its prefix; SYSTEM: the part of the platform that acts. */
  name: string;
}

/** One audit event: an action, or an attempt. */
export interface AuditEntry {
  /** Null: belongs to no organization. */
  organizationId: string | null;
  event: AuditEventName;
  actor: Actor;
  target: { type: string; id: string } | null;
  address: string | null;
  outcome: 'SUCCESS' | 'FAILURE';
  details: Record<string, unknown>;
}

/** Changed columns of a row: the status that REST lists show. */
export interface StatusChange {
  kind: 'device' | 'plant' | 'sub-device' | 'alert';
  id: string;
  columns: Record<string, string | number | null>;
}

/** A new alert [C-9]. */
export interface AlertEntry {
  id: string;
  organizationId: string;
  /** Null: no rule opened it. */
  ruleId: string | null;
  plantId: string | null;
  deviceId: string | null;
  type: AlertType;
  severity: AlertSeverity;
  message: string;
  value: number | null;
  threshold: number | null;
  firstSeenAtMs: number;
  lastSeenAtMs: number;
  count: number;
}

export type RegistryWrite =
  | StatusChange
  | { kind: 'alert-begun'; entry: AlertEntry }
  | { kind: 'audit'; cause: string; entry: AuditEntry; atMs: number };
