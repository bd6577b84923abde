/** What the registry is told, as it travels. */
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
  kind: 'device' | 'plant' | 'sub-device';
  id: string;
  columns: Record<string, string | number | null>;
}

export type RegistryWrite = StatusChange | { kind: 'audit'; cause: string; entry: AuditEntry; atMs: number };
