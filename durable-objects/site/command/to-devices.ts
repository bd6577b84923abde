/** What a command that is for whole devices becomes: the same MQTT command for each of them. Pure. */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { PlannedDispatch } from './kind/kind.ts';

export function toDevices(
  deviceIds: readonly (string | undefined)[],
  action: string,
  payload: object,
): PlannedDispatch[] {
  const known = new Set(deviceIds.filter((id) => id !== undefined));
  return [...known].map((deviceId) => ({ deviceId, action, payloadText: signableJson(payload), items: [] }));
}
