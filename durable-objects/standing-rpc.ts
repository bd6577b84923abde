/**
 * The RPC contracts of what an object knows that D1 may have lost, when time travel has set it back. Add fields, never
 * change the meaning of one (see rpc.ts).
 */
import type { DeviceStatus } from '../protocol/enums.ts';

interface Standing {
  /** As the object's copy of the registry has it; null: it has none. */
  organization: { version: number; isSuspended: boolean } | null;
}

export interface SiteStanding extends Standing {
  /** The devices that the Site serves. */
  devices: {
    id: string;
    status: Exclude<DeviceStatus, 'PENDING'>;
    /** When the status changed. */
    statusAtMs: number;
    suspendReason: string | null;
  }[];
}

export interface VhostStanding extends Standing {
  isRevoked: boolean;
}

export interface SiteStandingRpc {
  standing(): SiteStanding;
}

export interface VhostStandingRpc {
  standing(): VhostStanding;
}

export function organizationOf(
  record: { version: number; isSuspended: boolean } | undefined,
): Standing['organization'] {
  return record ? { version: record.version, isSuspended: record.isSuspended } : null;
}
