/** Presence: the status of plant, sub-devices and devices, from sessions and samples [C-2.5]. Pure. */
import type {
  DeviceConnectionStatus,
  DeviceReportedStatus,
  PlantStatus,
  SubDeviceStatus,
} from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';

/** `subDevices` by external id, `devices` by id. */
export interface PresenceStatus {
  plant: PlantStatus;
  subDevices: Record<string, SubDeviceStatus>;
  devices: Record<string, DeviceConnectionStatus>;
  /** The `lastSeenAt` last reported to the registry for connected devices, by id. */
  seenAtMs?: Record<string, number>;
}

export interface PresenceInput {
  previous: PresenceStatus;
  /** Whether any device has a session and is not silent. */
  connected: boolean;
  /** When the last session ended or fell silent; undefined if there was none. */
  lastSessionEndMs: number | undefined;
  /**
   * `afterMs`: how long after the last contact the gateway engages its fallback; undefined if none is
   * configured. `isActive`: the gateway reports that its fallback is active.
   */
  fallback: { afterMs: number | undefined; isActive: boolean };
  subDevices: {
    id: string;
    lastSampleAtMs: number | undefined;
    inError: boolean;
    /** The device's `ts` of a meter's newest register value; undefined if there is none. */
    registerAtMs?: number | undefined;
  }[];
  devices: {
    id: string;
    connected: boolean;
    everConnected: boolean;
    reported: DeviceReportedStatus | null;
  }[];
}

export const NO_PRESENCE: PresenceStatus = { plant: 'PENDING', subDevices: {}, devices: {} };

/** The presence now, and when it changes next without any new input. */
export function presenceAt(
  input: PresenceInput,
  now: number,
): { presence: PresenceStatus; nextChangeMs: number | undefined } {
  let nextChangeMs: number | undefined;
  const changesAt = (at: number) => {
    if (at > now && (nextChangeMs === undefined || at < nextChangeMs)) nextChangeMs = at;
  };

  const engagedAtMs = fallbackAtMs(input);
  if (engagedAtMs !== undefined) changesAt(engagedAtMs);
  const subDevices: Record<string, SubDeviceStatus> = {};
  for (const { id, lastSampleAtMs, inError, registerAtMs } of input.subDevices) {
    if (registerAtMs !== undefined) changesAt(registerAtMs + LIMIT.registerStaleMs);
    if (lastSampleAtMs !== undefined) {
      changesAt(lastSampleAtMs + LIMIT.subDeviceFreshMs);
      changesAt(lastSampleAtMs + LIMIT.subDeviceOfflineMs);
    }
    subDevices[id] = subDeviceStatus(lastSampleAtMs, inError, now);
  }

  const stale = Object.values(subDevices).some((status) => status === 'DEGRADED' || status === 'OFFLINE');
  let plant: PlantStatus = stale ? 'DEGRADED' : 'ONLINE';
  if (!input.connected) {
    const goneAt =
      input.lastSessionEndMs === undefined ? undefined : input.lastSessionEndMs + LIMIT.sessionGoneMs;
    if (goneAt === undefined) plant = 'PENDING';
    else if (goneAt <= now) plant = 'OFFLINE';
    else {
      plant = input.previous.plant;
      changesAt(goneAt);
    }
  }
  const devices = Object.fromEntries(input.devices.map((device) => [device.id, connectionStatus(device)]));
  return { presence: { plant, subDevices, devices }, nextChangeMs };
}

/**
 * Whether the plant runs its fallback: its gateway reports it, or no device was connected for the configured
 * time [C-2.3].
 */
export function isFallbackEngaged(input: PresenceInput, now: number): boolean {
  return input.fallback.isActive || (fallbackAtMs(input) ?? Number.POSITIVE_INFINITY) <= now;
}

function fallbackAtMs({ connected, lastSessionEndMs, fallback }: PresenceInput): number | undefined {
  if (connected || lastSessionEndMs === undefined || fallback.afterMs === undefined) return undefined;
  return lastSessionEndMs + fallback.afterMs;
}

/**
 * Without a session the device is OFFLINE, or UNKNOWN if it never had one, whatever it last reported; with one,
 * the reported status counts [C-3.10].
 */
function connectionStatus(device: PresenceInput['devices'][number]): DeviceConnectionStatus {
  if (!device.connected) return device.everConnected ? 'OFFLINE' : 'UNKNOWN';
  return device.reported ?? 'ONLINE';
}

function subDeviceStatus(lastSampleAtMs: number | undefined, inError: boolean, now: number): SubDeviceStatus {
  if (lastSampleAtMs === undefined) return 'UNKNOWN';
  const age = now - lastSampleAtMs;
  if (age >= LIMIT.subDeviceOfflineMs) return 'OFFLINE';
  return age >= LIMIT.subDeviceFreshMs || inError ? 'DEGRADED' : 'ONLINE';
}
