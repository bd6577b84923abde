/** Who is there: plant and sub-device status from sessions and samples [C-2.5]. Pure. */
import type { DeviceReportedStatus, SubDeviceStatus } from '../../protocol/enums.ts';

export const SESSION_GONE_MS = 90_000;
const FRESH_MS = 5 * 60_000;
const STALE_MS = 15 * 60_000;

export type PlantStatus = 'PENDING' | 'ONLINE' | 'DEGRADED' | 'OFFLINE';

export type ConnectionStatus = DeviceReportedStatus | 'UNKNOWN';

export interface Presence {
  plant: PlantStatus;
  subDevices: Record<string, SubDeviceStatus>;
  devices: Record<string, ConnectionStatus>;
}

export interface PresenceInput {
  previous: Presence;
  /** Whether any device has a live session. */
  connected: boolean;
  /** When the last session ended; undefined when there never was one. */
  lastSessionEndMs: number | undefined;
  subDevices: { id: string; lastSampleAtMs: number | undefined; inError: boolean }[];
  devices: {
    id: string;
    connected: boolean;
    everConnected: boolean;
    reported: DeviceReportedStatus | null;
  }[];
}

export const NO_PRESENCE: Presence = { plant: 'PENDING', subDevices: {}, devices: {} };

/** The presence now, and when time alone will change it next. */
export function presenceAt(
  input: PresenceInput,
  now: number,
): { presence: Presence; nextChangeMs: number | undefined } {
  let nextChangeMs: number | undefined;
  const changesAt = (at: number) => {
    if (at > now && (nextChangeMs === undefined || at < nextChangeMs)) nextChangeMs = at;
  };

  const subDevices: Record<string, SubDeviceStatus> = {};
  for (const { id, lastSampleAtMs, inError } of input.subDevices) {
    if (lastSampleAtMs !== undefined) {
      changesAt(lastSampleAtMs + FRESH_MS);
      changesAt(lastSampleAtMs + STALE_MS);
    }
    subDevices[id] = subDeviceStatus(lastSampleAtMs, inError, now);
  }

  const stale = Object.values(subDevices).some((status) => status === 'DEGRADED' || status === 'OFFLINE');
  let plant: PlantStatus = stale ? 'DEGRADED' : 'ONLINE';
  if (!input.connected) {
    const goneAt =
      input.lastSessionEndMs === undefined ? undefined : input.lastSessionEndMs + SESSION_GONE_MS;
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

/** OFFLINE comes from the session, never from what a device said last [C-3.10]. */
function connectionStatus(device: PresenceInput['devices'][number]): ConnectionStatus {
  if (!device.connected) return device.everConnected ? 'OFFLINE' : 'UNKNOWN';
  return device.reported ?? 'ONLINE';
}

function subDeviceStatus(lastSampleAtMs: number | undefined, inError: boolean, now: number): SubDeviceStatus {
  if (lastSampleAtMs === undefined) return 'UNKNOWN';
  const age = now - lastSampleAtMs;
  if (age >= STALE_MS) return 'OFFLINE';
  return age >= FRESH_MS || inError ? 'DEGRADED' : 'ONLINE';
}
