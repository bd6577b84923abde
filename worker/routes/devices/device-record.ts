/** Converts a device row to the record that the API returns [C-3.1]. */
import type { DeviceRecord } from '../../../protocol/device-record.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { DeviceRow } from '../../registry/devices.ts';

export function deviceRecordOf(row: DeviceRow, now: number): DeviceRecord {
  const isInGrace = row.hmacGraceUntilMs !== null && now < row.hmacGraceUntilMs;
  return {
    id: row.id,
    organizationId: row.organizationId,
    plantId: row.plantId,
    name: row.name,
    serialNumber: row.serialNumber,
    type: row.type,
    authMethod: row.authMethod,
    metadata: row.metadata,
    status: row.status,
    connectionStatus: row.connectionStatus,
    lastSeenAt: instantOf(row.lastSeenAtMs),
    provisionedAt: instantOf(row.provisionedAtMs),
    suspendedAt: instantOf(row.suspendedAtMs),
    suspendReason: row.suspendReason,
    tokenExpiresAt: instantOf(row.tokenExpiresAtMs),
    hmacRotation: isInGrace ? { graceUntil: formatInstant(row.hmacGraceUntilMs ?? 0) } : null,
    createdAt: formatInstant(row.createdAtMs),
    updatedAt: formatInstant(Math.max(row.updatedAtMs, row.createdAtMs)),
  };
}

function instantOf(epochMs: number | null): string | null {
  return epochMs === null ? null : formatInstant(epochMs);
}
