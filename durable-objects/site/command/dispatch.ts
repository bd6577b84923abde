/**
 * From a valid command to MQTT commands, and from device acks back to its execution. Pure; the Site writes.
 *
 *   WAITING ──device there──► SENT ──ack──► RECEIVED ─► IN_PROGRESS ─► COMPLETED | FAILED
 *      │ expires: FAILED        │ 30 s: again, three times, then FAILED NO_ACK
 */

import { type Command, type DeviceCommandItem, targetSignedKw } from '../../../protocol/command.ts';
import { signableJson } from '../../../protocol/compact-json.ts';
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import type { DispatchRow, DispatchState } from '../schema.ts';
import { findAsset, linkedDevices, type SiteFacts } from './checks.ts';
import { type JudgedItem, windowOf } from './pipeline.ts';

/** [C-7.8] */
export const ACK_TIMEOUT_MS = 30_000;
export const MAX_TRIES = 3;
/** How long a device command without validUntil waits for its device [C-7.6]. */
export const DEVICE_COMMAND_WAIT_MS = 15 * 60_000;
/** When an open-ended setpoint is ended after it began [C-7.8]. */
export const OPEN_SETPOINT_MS = 5 * 60_000;

export interface PlannedDispatch {
  deviceId: string;
  action: string;
  payloadText: string;
  items: DeviceCommandItem[];
}

/** Which MQTT commands a valid command becomes: one per (serving device, command type) [C-7.8], [C-7.10]. */
export function planDispatches(
  command: Command,
  items: readonly JudgedItem[],
  facts: SiteFacts,
  gatewayId: string | undefined,
): PlannedDispatch[] {
  switch (command.commandType) {
    case 'SITE_SETPOINT': {
      const payload = { ...command.payload, targetSignedKw: targetSignedKw(command.payload) };
      return toDevices([gatewayId], 'SITE_SETPOINT', payload);
    }
    case 'MODE_CHANGE':
      return toDevices([gatewayId], 'MODE_CHANGE', command.payload);
    case 'EMERGENCY': {
      const action = command.payload.type === 'STOP' ? 'EMERGENCY_STOP' : 'EMERGENCY_HOLD';
      return toDevices([gatewayId, ...linkedDevices(facts)], action, command.payload);
    }
    case 'DEVICE_COMMAND':
      return groupItems(items, facts);
  }
}

function toDevices(
  deviceIds: readonly (string | undefined)[],
  action: string,
  payload: object,
): PlannedDispatch[] {
  const known = new Set(deviceIds.filter((id) => id !== undefined));
  return [...known].map((deviceId) => ({ deviceId, action, payloadText: signableJson(payload), items: [] }));
}

function groupItems(items: readonly JudgedItem[], facts: SiteFacts): PlannedDispatch[] {
  const groups = new Map<string, { deviceId: string; items: DeviceCommandItem[] }>();
  for (const { item, refusal } of items) {
    const asset = refusal ? undefined : findAsset(item, facts);
    const serving = asset && facts.servingDevice(asset);
    if (!serving) continue;
    const key = `${serving.id}|${item.command}`;
    const group = groups.get(key) ?? { deviceId: serving.id, items: [] };
    group.items.push(item);
    groups.set(key, group);
  }
  return [...groups.values()].map((group) => {
    const targets = group.items.map(({ deviceId, assetType, params }) => ({
      deviceId,
      assetType,
      params: { ...params, respectLimits: params?.respectLimits ?? true },
    }));
    const action = group.items[0]?.command ?? '';
    return {
      deviceId: group.deviceId,
      action,
      payloadText: signableJson({ targets, validUntil: null }),
      items: group.items,
    };
  });
}

/** When a waiting dispatch may go out, and when it is too late. */
export function dispatchWindow(
  command: Command,
  now: number,
): { notBeforeMs: number; expiresAtMs: number | null } {
  const window = windowOf(command);
  const waits = command.commandType === 'DEVICE_COMMAND' ? now + DEVICE_COMMAND_WAIT_MS : null;
  return { notBeforeMs: window.fromMs ?? 0, expiresAtMs: window.untilMs ?? waits };
}

/** When a waiting dispatch must be looked at again. */
export function waitingDue(
  row: Pick<DispatchRow, 'not_before_ms' | 'expires_at_ms'>,
  now: number,
): number | null {
  return row.not_before_ms > now ? row.not_before_ms : row.expires_at_ms;
}

/** When a dispatch that was sent must be looked at: its ack is late, or it is too late for it. */
export function ackDue(expiresAtMs: number | null, now: number): number {
  return Math.min(now + ACK_TIMEOUT_MS, expiresAtMs ?? Number.POSITIVE_INFINITY);
}

const RANK: Record<DispatchState, number> = {
  WAITING: 0,
  SENT: 1,
  RECEIVED: 2,
  IN_PROGRESS: 3,
  COMPLETED: 4,
  FAILED: 4,
};

/** The new state that an ack brings, or undefined when it is lower or the same [C-3.9]. */
export function advance(state: DispatchState, ack: DeviceAckStatus): DispatchState | undefined {
  return RANK[ack] > RANK[state] ? ack : undefined;
}

export function hasEnded(state: DispatchState): boolean {
  return RANK[state] === RANK.COMPLETED;
}

/** How a command ends once all its dispatches have: COMPLETED if all are, else FAILED naming the devices [C-7.8]. */
export function outcomeOf(rows: readonly DispatchRow[]): {
  status: 'COMPLETED' | 'FAILED';
  reason: string | null;
} {
  const failed = rows.filter((row) => row.state === 'FAILED');
  if (failed.length === 0) return { status: 'COMPLETED', reason: null };
  const subjects = failed.map((row) => {
    const payload = JSON.parse(row.payload) as { targets?: { deviceId: string }[] };
    const names = payload.targets?.map((target) => target.deviceId).join(', ') ?? row.device_id;
    return row.reason ? `${row.reason}: ${names}` : names;
  });
  return { status: 'FAILED', reason: subjects.join('; ') };
}
