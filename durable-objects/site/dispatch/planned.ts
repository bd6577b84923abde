/** One MQTT command that is to be dispatched to one device [C-7.8], [C-7.10]. Pure. */
import type { DeviceCommandItem } from '../../../protocol/command.ts';
import { signableJson } from '../../../protocol/compact-json.ts';

export interface PlannedDispatch {
  deviceId: string;
  action: string;
  payloadText: string;
  /** The items of a batch that this dispatch carries; empty for other commands. */
  items: DeviceCommandItem[];
}

/** The same MQTT command for each of the devices; undefined and repeated ids are left out. */
export function toDevices(
  deviceIds: readonly (string | undefined)[],
  action: string,
  payload: object,
): PlannedDispatch[] {
  const known = new Set(deviceIds.filter((id) => id !== undefined));
  return [...known].map((deviceId) => ({ deviceId, action, payloadText: signableJson(payload), items: [] }));
}
