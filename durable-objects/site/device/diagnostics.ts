/** What a device is never told, for who looks after it [C-3.8]. */
import type { DeviceDiagnostics } from '../../../protocol/device-record.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { SiteParts } from '../parts.ts';

export function readDiagnostics({ diagnostics }: SiteParts, deviceId: string): DeviceDiagnostics {
  return {
    drops: Object.fromEntries(diagnostics.dropped(deviceId).map(({ reason, count }) => [reason, count])),
    recent: diagnostics.drops(deviceId).map(({ at_ms: atMs, topic, reason, detail, expected }) => ({
      at: formatInstant(atMs),
      topic,
      reason,
      detail,
      ...(expected === null ? {} : { expected }),
    })),
    connects: diagnostics.connects(deviceId).map(({ at_ms: atMs, address, outcome, reason }) => ({
      at: formatInstant(atMs),
      address,
      outcome,
      ...(reason === null ? {} : { reason }),
    })),
  };
}
