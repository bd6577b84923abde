/**
 * DEVICE_COMMAND: a batch for sub-devices, judged item by item, then by its sum per direction (spec: Device command;
 * [C-7.4]). It goes out as one MQTT command per serving device and command type [C-7.8].
 */
import { assetTypeOf, deviceCommandRule } from '../../../../protocol/asset.ts';
import type { DeviceCommand, DeviceCommandItem } from '../../../../protocol/command.ts';
import { signableJson } from '../../../../protocol/compact-json.ts';
import { LIMIT } from '../../../../protocol/limits.ts';
import type { DispatchRow } from '../../dispatch/rows.ts';
import { findSubDevice, type SiteFacts } from '../../site-facts.ts';
import { isLimited, limitsOf, overLimit } from '../checks.ts';
import type { BatteryDemand } from '../commanded.ts';
import { type Refusal, refusal, together, violated } from '../refusal.ts';
import type { JudgedItem, Kind, PlannedDispatch, Stage, StageName } from './kind.ts';

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
function demandOf(item: DeviceCommandItem, facts: SiteFacts): BatteryDemand | undefined {
  const { limit } = deviceCommandRule(item.command);
  if (!limit) return undefined;
  const powerKw = item.params?.powerKw ?? findSubDevice(facts, item.deviceId)?.ratedPowerKw ?? undefined;
  return powerKw === undefined ? undefined : { limit, powerKw };
}

/** Nothing charges a battery that is at its upper bound, nothing discharges one at its lower [C-2.3]. */
function checkCharge(
  { deviceId }: DeviceCommandItem,
  { limit: direction, powerKw }: BatteryDemand,
  facts: SiteFacts,
): Refusal | undefined {
  const subDevice = findSubDevice(facts, deviceId);
  const value = subDevice && facts.socPercent(subDevice);
  if (value === undefined || powerKw === 0) return undefined;
  const name = direction === 'maxChargeKw' ? 'maxSocPercent' : 'minSocPercent';
  for (const { constraint, limit } of limitsOf(facts, name)) {
    const isAtBound = limit !== null && (name === 'maxSocPercent' ? value >= limit : value <= limit);
    if (isAtBound) return violated({ constraint, limit, value, unit: '%', deviceId });
  }
  return undefined;
}

const checkConstraint: ItemCheck = (item, facts) => {
  const { emergency } = facts;
  if (emergency) {
    return refusal('CONSTRAINT_VIOLATION', `emergency ${emergency.type} holds until a mode change`);
  }
  const demand = demandOf(item, facts);
  if (demand) {
    return (
      overLimit(facts, demand.limit, demand.powerKw, { deviceId: item.deviceId }) ??
      checkCharge(item, demand, facts)
    );
  }
  const { limit } = deviceCommandRule(item.command);
  if (!limit || !isLimited(facts, limit) || !findSubDevice(facts, item.deviceId)) return undefined;
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

const ITEM_CHECKS: readonly (readonly [StageName, ItemCheck])[] = [
  ['target', checkTarget],
  ['constraint', checkConstraint],
  ['asset', checkAsset],
  ['fault', checkFault],
];

/** Every check says what it finds; the code is the first one's [C-7.4]. */
function judgeItem(item: DeviceCommandItem, facts: SiteFacts, isNamedBefore: boolean): JudgedItem {
  const found = ITEM_CHECKS.flatMap(([stage, check]) => {
    const why = check(item, facts);
    return why ? [{ stage, why }] : [];
  });
  if (isNamedBefore) {
    const why = refusal('INVALID_COMMAND', `${item.deviceId} is named twice`);
    found.push({ stage: 'asset', why });
  }
  const why = together(found.map((one) => one.why));
  return { item, refusal: why, ...(found[0] && { stage: found[0].stage }) };
}

/** A deviceId named again makes the later item INVALID_COMMAND. */
const judgeItems: Stage<DeviceCommand> = ({ payload, facts, items }) => {
  const named = new Set<string>();
  for (const item of payload.commands) {
    items.push(judgeItem(item, facts, named.has(item.deviceId)));
    named.add(item.deviceId);
  }
  return undefined;
};

/**
 * The sum per direction over all items that stand so far, and over what other batteries were commanded before: over
 * it, every item of that direction falls.
 */
const judgeSums: Stage<DeviceCommand> = ({ facts, items }) => {
  for (const limit of ['maxChargeKw', 'maxDischargeKw'] as const) {
    const demanding = items.flatMap((judged) => {
      const demand = judged.refusal ? undefined : demandOf(judged.item, facts);
      return demand?.limit === limit ? [{ judged, powerKw: demand.powerKw }] : [];
    });
    if (demanding.length === 0) continue;
    const named = new Set(items.map(({ item }) => item.deviceId));
    const before = Object.entries(facts.commanded).filter(
      ([id, demand]) => demand.limit === limit && !named.has(id),
    );
    if (demanding.length + before.length < 2) continue;
    const totalKw = [...demanding, ...before.map(([, demand]) => demand)].reduce(
      (sum, { powerKw }) => sum + powerKw,
      0,
    );
    const why = overLimit(facts, limit, totalKw);
    if (why) for (const { judged } of demanding) Object.assign(judged, { refusal: why, stage: 'constraint' });
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

/** What the items that stand ask of each battery; undefined: nothing any more. */
export function batteryDemands(
  items: readonly JudgedItem[],
  facts: SiteFacts,
): [string, BatteryDemand | undefined][] {
  const standing = items.filter(({ item, refusal: why }) => !why && item.assetType === 'BESS');
  return standing.map(({ item }) => [item.deviceId, demandOf(item, facts)]);
}

export const deviceCommandKind: Kind<DeviceCommand> = {
  stages: [
    ['items', judgeItems],
    ['constraint', judgeSums],
    ['items', judgeWhole],
  ],
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
  end: 'ack',
};
