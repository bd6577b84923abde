/**
 * DEVICE_COMMAND: a batch for sub-devices, judged item by item, then by its sum per direction (spec: Device command;
 * [C-7.4]). It goes out as one MQTT command per serving device and command type [C-7.8].
 */
import { assetTypeOf, type BatteryLimit, deviceCommandRule } from '../../../../protocol/asset.ts';
import type { DeviceCommand, DeviceCommandItem } from '../../../../protocol/command.ts';
import { signableJson } from '../../../../protocol/compact-json.ts';
import { LIMIT } from '../../../../protocol/limits.ts';
import type { DispatchRow } from '../../dispatch/rows.ts';
import { findSubDevice, type SiteFacts } from '../../site-facts.ts';
import { isLimited, overLimit } from '../checks.ts';
import { type Refusal, refusal } from '../refusal.ts';
import type { JudgedItem, Kind, PlannedDispatch, Stage } from './kind.ts';

type ItemCheck = (item: DeviceCommandItem, facts: SiteFacts) => Refusal | undefined;

const checkTarget: ItemCheck = (item, facts) => {
  const subDevice = findSubDevice(facts, item.deviceId);
  if (!subDevice) return refusal('DEVICE_OFFLINE', `${item.deviceId} is not in the site's topology`);
  const serving = facts.servingDevice(subDevice);
  if (!serving) return refusal('DEVICE_OFFLINE', `no device serves ${item.deviceId}`);
  // Until its serving device has had time to tell of it, silence of before says nothing.
  if (!serving.live || serving.connectedForMs < LIMIT.offlineGraceMs) return undefined;
  if (!facts.isOffline(subDevice)) return undefined;
  return refusal('DEVICE_OFFLINE', `${item.deviceId} is offline`);
};

/** The battery power that an item asks for, and the limit it counts against; undefined for what moves none. */
function demandOf(
  item: DeviceCommandItem,
  facts: SiteFacts,
): { limit: BatteryLimit; powerKw: number } | undefined {
  const { limit } = deviceCommandRule(item.command);
  if (!limit) return undefined;
  const powerKw = item.params?.powerKw ?? findSubDevice(facts, item.deviceId)?.ratedPowerKw ?? undefined;
  return powerKw === undefined ? undefined : { limit, powerKw };
}

const checkConstraint: ItemCheck = (item, facts) => {
  const demand = demandOf(item, facts);
  if (demand) return overLimit(facts, demand.limit, demand.powerKw, item.deviceId);
  const { limit } = deviceCommandRule(item.command);
  if (!limit || !isLimited(facts, limit)) return undefined;
  return refusal('INVALID_PAYLOAD', `${item.deviceId}: powerKw is needed, its rated power is unknown`);
};

const checkAsset: ItemCheck = (item, facts) => {
  const subDevice = findSubDevice(facts, item.deviceId);
  if (!subDevice) return undefined;
  const { assetType } = subDevice;
  if (assetType !== item.assetType) {
    return refusal('INVALID_COMMAND', `${item.deviceId} is a ${assetType}, not a ${item.assetType}`);
  }
  if (assetTypeOf(item.command) === assetType) return undefined;
  return refusal('INVALID_COMMAND', `${item.command} is not for a ${assetType}`);
};

const checkFault: ItemCheck = (item, facts) => {
  const subDevice = findSubDevice(facts, item.deviceId);
  if (!subDevice || !facts.isInFault(subDevice)) return undefined;
  return refusal('DEVICE_FAULT', `${item.deviceId} reports a fault`);
};

const ITEM_CHECKS: readonly ItemCheck[] = [checkTarget, checkConstraint, checkAsset, checkFault];

/** A deviceId named again makes the later item INVALID_COMMAND. */
const judgeItems: Stage<DeviceCommand> = ({ payload, facts, items }) => {
  const named = new Set<string>();
  for (const item of payload.commands) {
    let why: Refusal | undefined;
    for (const check of ITEM_CHECKS) why ??= check(item, facts);
    if (!why && named.has(item.deviceId)) why = refusal('INVALID_COMMAND', `${item.deviceId} is named twice`);
    named.add(item.deviceId);
    items.push({ item, refusal: why });
  }
  return undefined;
};

/** The sum per direction over all items that stand so far: over it, every item of that direction falls. */
const judgeSums: Stage<DeviceCommand> = ({ facts, items }) => {
  for (const limit of ['maxChargeKw', 'maxDischargeKw'] as const) {
    const demanding = items.flatMap((judged) => {
      const demand = judged.refusal ? undefined : demandOf(judged.item, facts);
      return demand?.limit === limit ? [{ judged, powerKw: demand.powerKw }] : [];
    });
    if (demanding.length < 2) continue;
    const totalKw = demanding.reduce((sum, { powerKw }) => sum + powerKw, 0);
    const why = overLimit(facts, limit, totalKw);
    if (why) for (const { judged } of demanding) judged.refusal = why;
  }
  return undefined;
};

/** All rejected: the whole is, with the first one's code [C-7.5]. */
const judgeWhole: Stage<DeviceCommand> = ({ items }) => {
  const isAnyStanding = items.some((judged) => !judged.refusal);
  return isAnyStanding ? undefined : items[0]?.refusal;
};

function plan(items: readonly JudgedItem[], facts: SiteFacts): PlannedDispatch[] {
  const groups = new Map<string, { deviceId: string; action: string; items: DeviceCommandItem[] }>();
  for (const { item, refusal: why } of items) {
    const subDevice = why ? undefined : findSubDevice(facts, item.deviceId);
    const serving = subDevice && facts.servingDevice(subDevice);
    if (!serving) continue;
    const key = `${serving.id}|${item.command}`;
    const group = groups.get(key) ?? { deviceId: serving.id, action: item.command, items: [] };
    group.items.push(item);
    groups.set(key, group);
  }
  return [...groups.values()].map((group) => {
    const targets = group.items.map(({ deviceId, assetType, params }) => ({
      deviceId,
      assetType,
      params: { ...params, respectLimits: params?.respectLimits ?? true },
    }));
    return { ...group, payloadText: signableJson({ targets, validUntil: null }) };
  });
}

/** Those of a batch that a dispatch carries. */
function carriedItems(commands: readonly DeviceCommandItem[], dispatch: DispatchRow): DeviceCommandItem[] {
  const { targets = [] } = JSON.parse(dispatch.payload) as { targets?: { deviceId: string }[] };
  const carried = new Set(targets.map((target) => target.deviceId));
  return commands.filter((item) => item.command === dispatch.action && carried.has(item.deviceId));
}

export const deviceCommandKind: Kind<DeviceCommand> = {
  stages: [judgeItems, judgeSums, judgeWhole],
  window: () => ({ waitsMs: LIMIT.deviceCommandWaitMs }),
  logColumns: ({ commands }) => ({
    priority: null,
    target: commands.map((item) => item.deviceId).join(','),
    target_value_kw: null,
  }),
  plan: (_payload, items, facts) => plan(items, facts),
  replan: ({ commands }, dispatch, facts) =>
    plan(
      carriedItems(commands, dispatch).map((item) => ({ item, refusal: undefined })),
      facts,
    ),
  recheck: ({ commands }, dispatch, facts) => {
    for (const item of carriedItems(commands, dispatch)) {
      const why = checkTarget(item, facts) ?? checkConstraint(item, facts);
      if (why) return why;
    }
    return undefined;
  },
  end: { by: 'ack' },
};
