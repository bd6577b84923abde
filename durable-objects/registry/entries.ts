/** What the registry is told, as it travels. */
import type { AlertSeverity, AlertType } from '../../protocol/alert.ts';

export interface Actor {
  type: 'USER' | 'API_KEY' | 'DEVICE' | 'SYSTEM';
  id: string;
  /** An e-mail, or a key's prefix. */
  name: string;
}

/** What somebody did, or tried. */
export interface AuditEntry {
  /** Null: of no organization. */
  organizationId: string | null;
  event: string;
  actor: Actor;
  target: { type: string; id: string } | null;
  address: string | null;
  outcome: 'SUCCESS' | 'FAILURE';
  details: Record<string, unknown>;
}

/** Status that lists need. */
export interface StatusChange {
  kind: 'device' | 'plant' | 'sub-device' | 'alert';
  id: string;
  columns: Record<string, string | number | null>;
}

/** An alert that began [C-9]. */
export interface AlertEntry {
  id: string;
  organizationId: string;
  ruleId: string;
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
