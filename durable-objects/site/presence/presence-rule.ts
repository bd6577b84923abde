/** Who is there: plant and sub-device status from sessions and samples [C-2.5]. Pure. */
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
  /** When lists were last told that a device is there, by id. */
  seenAtMs?: Record<string, number>;
}

export interface PresenceInput {
  previous: PresenceStatus;
  /** Whether any device is in a session. */
  connected: boolean;
  /** When the last session ended; undefined when there never was one. */
  lastSessionEndMs: number | undefined;
  /** After how long without a word it falls back, undefined where that is not agreed; and whether it says that it did. */
  fallback: { afterMs: number | undefined; isActive: boolean };
  subDevices: {
    id: string;
    lastSampleAtMs: number | undefined;
    inError: boolean;
    /** Of the newest register of a meter, as its device says; undefined where it never told one. */
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

/** The presence now, and when time alone will change it next. */
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

/** Whether the plant runs by its fallback: it says so, or nobody could reach it for as long as was agreed [C-2.3]. */
export function isFallbackEngaged(input: PresenceInput, now: number): boolean {
  return input.fallback.isActive || (fallbackAtMs(input) ?? Number.POSITIVE_INFINITY) <= now;
}

function fallbackAtMs({ connected, lastSessionEndMs, fallback }: PresenceInput): number | undefined {
  if (connected || lastSessionEndMs === undefined || fallback.afterMs === undefined) return undefined;
  return lastSessionEndMs + fallback.afterMs;
}

/** Without a session it is OFFLINE, whatever it said last; within one it is what it said [C-3.10]. */
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
