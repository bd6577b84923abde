/**
 * DEVICE_COMMAND: a batch for sub-devices, validated item by item, then by the sum per direction (spec:
 * Device command; [C-7.4]). It is sent as one MQTT command per serving device and command type [C-7.8].
 */
import { assetTypeOf, deviceCommandRule } from '../../../../protocol/asset.ts';
import type { DeviceCommand, DeviceCommandItem } from '../../../../protocol/command.ts';
import { signableJson } from '../../../../protocol/compact-json.ts';
import { LIMIT } from '../../../../protocol/limits.ts';
import type { PlannedDispatch } from '../../dispatch/dispatch.ts';
import { type Refusal, refusal, together, violated } from '../../refusal.ts';
import { type ActiveEmergency, type BatteryDemand, findSubDevice, type SiteView } from '../../site-view.ts';
import { isLimited, limitsOf, overLimit } from '../constraints.ts';
import { BATTERY_LIMITS, demandOf, earlierDemands, sumKw } from './battery-demand.ts';
import { nearest } from './device-nearest.ts';
import type { JudgedItem, Kind, Stage, StageName, Waiting } from './kind.ts';

type ItemCheck = (item: DeviceCommandItem, view: SiteView) => Refusal | undefined;

const checkTarget: ItemCheck = (item, view) => {
  const subDevice = findSubDevice(view, item.deviceId);
  if (!subDevice) return refusal('DEVICE_OFFLINE', `${item.deviceId} is not in the site's topology`);
  const serving = view.servingDevice(subDevice);
  if (!serving) return refusal('DEVICE_OFFLINE', `no device serves ${item.deviceId}`);
  // A serving device that has just connected needs time to report its sub-devices, so a sub-device without
  // data does not count as offline yet.
  if (!serving.live || serving.connectedForMs < LIMIT.offlineGraceMs) return undefined;
  if (!view.isOffline(subDevice)) return undefined;
  return refusal('DEVICE_OFFLINE', `${item.deviceId} is offline`);
};

/** Rejects charging a battery at its upper state-of-charge limit and discharging one at its lower [C-2.3]. */
function checkCharge(
  { deviceId }: DeviceCommandItem,
  { limit: direction, powerKw }: BatteryDemand,
  view: SiteView,
): Refusal | undefined {
  const subDevice = findSubDevice(view, deviceId);
  const value = subDevice && view.socPercent(subDevice);
  if (value === undefined || powerKw === 0) return undefined;
  const name = direction === 'maxChargeKw' ? 'maxSocPercent' : 'minSocPercent';
  for (const { constraint, limit } of limitsOf(view, name)) {
    const isAtBound = limit !== null && (name === 'maxSocPercent' ? value >= limit : value <= limit);
    if (isAtBound) return violated({ constraint, limit, value, unit: '%', deviceId });
  }
  return undefined;
}

/** Whether the command stops its asset or limits it to zero. */
function stops({ command, params }: DeviceCommandItem): boolean {
  const { isStop, required } = deviceCommandRule(command);
  return isStop || (required === 'percent' ? params?.percent === 100 : params?.powerKw === 0);
}

/** [C-7.7] The limit of an emergency is 0 kW. */
function refusedByEmergency(item: DeviceCommandItem, { type }: ActiveEmergency, view: SiteView): Refusal {
  const { deviceId, params } = item;
  const ratedKw = findSubDevice(view, deviceId)?.ratedPowerKw ?? undefined;
  const ofRated = ratedKw === undefined ? undefined : ratedKw * (1 - (params?.percent ?? 0) / 100);
  return violated({
    constraint: 'emergency',
    limit: 0,
    value: params?.powerKw ?? ofRated,
    unit: 'kW',
    deviceId,
    text: `an emergency ${type} is active, only commands that stop an asset pass; send a mode command to end it`,
  });
}

const checkConstraint: ItemCheck = (item, view) => {
  if (view.emergency && !stops(item)) return refusedByEmergency(item, view.emergency, view);
  const demand = demandOf(item, view);
  if (demand) {
    return (
      overLimit(view, demand.limit, demand.powerKw, { deviceId: item.deviceId }) ??
      checkCharge(item, demand, view)
    );
  }
  const { limit } = deviceCommandRule(item.command);
  if (!limit || !isLimited(view, limit) || !findSubDevice(view, item.deviceId)) return undefined;
  return refusal('INVALID_PAYLOAD', `${item.deviceId}: powerKw is required: the rated power is unknown`);
};

const checkAsset: ItemCheck = (item, view) => {
  const subDevice = findSubDevice(view, item.deviceId);
  if (!subDevice) return undefined;
  const { assetType } = subDevice;
  if (assetType !== item.assetType) {
    return refusal('INVALID_COMMAND', `${item.deviceId} is a ${assetType}, not a ${item.assetType}`);
  }
  if (assetTypeOf(item.command) === assetType) return undefined;
  return refusal('INVALID_COMMAND', `${item.command} is not for a ${assetType}`);
};

const checkFault: ItemCheck = (item, view) => {
  const subDevice = findSubDevice(view, item.deviceId);
  if (!subDevice || !view.isInFault(subDevice)) return undefined;
  return refusal('DEVICE_FAULT', `${item.deviceId} reports a fault`);
};

const ITEM_CHECKS: readonly (readonly [StageName, ItemCheck])[] = [
  ['target', checkTarget],
  ['constraint', checkConstraint],
  ['asset', checkAsset],
  ['fault', checkFault],
];

/** Runs all checks and combines their messages; the code is that of the first failure [C-7.4]. */
function judgeItem(item: DeviceCommandItem, view: SiteView, isNamedBefore: boolean): JudgedItem {
  const found = ITEM_CHECKS.flatMap(([stage, check]) => {
    const why = check(item, view);
    return why ? [{ stage, why }] : [];
  });
  if (isNamedBefore) {
    const why = refusal('INVALID_COMMAND', `${item.deviceId} is named twice`);
    found.push({ stage: 'asset', why });
  }
  const why = together(found.map((one) => one.why));
  return { item, refusal: why, ...(found[0] && { stage: found[0].stage, found }) };
}

/**
 * If a deviceId occurs twice in a batch, the later item is rejected: INVALID_COMMAND unless another check
 * fails, too.
 */
const judgeItems: Stage<DeviceCommand> = ({ payload, view, items }) => {
  const named = new Set<string>();
  for (const item of payload.commands) {
    items.push(judgeItem(item, view, named.has(item.deviceId)));
    named.add(item.deviceId);
  }
  return undefined;
};

/**
 * Checks the sum per direction over all valid items and the earlier commands of other batteries. If the sum
 * exceeds the limit, every item of that direction is rejected.
 */
const judgeSums: Stage<DeviceCommand> = ({ view, items }) => {
  for (const limit of BATTERY_LIMITS) {
    const demanding = items.flatMap((judged) => {
      const demand = judged.refusal ? undefined : demandOf(judged.item, view);
      return demand?.limit === limit ? [{ judged, powerKw: demand.powerKw }] : [];
    });
    if (demanding.length === 0) continue;
    const before = earlierDemands(
      items.map(({ item }) => item),
      limit,
      view,
    );
    if (demanding.length + before.length < 2) continue;
    const whole = overLimit(view, limit, sumKw([...demanding, ...before]));
    const shown = before.filter(({ isHidden }) => !isHidden);
    // A partner reads its own part of the sum [C-15.1].
    const how = 'together with the commands of other partners exceeds';
    const why =
      whole?.violation && shown.length < before.length
        ? violated({ ...whole.violation, value: sumKw([...demanding, ...shown]), how })
        : whole;
    if (why) for (const { judged } of demanding) Object.assign(judged, { refusal: why, stage: 'constraint' });
  }
  return undefined;
};

/** If all items are rejected, the batch is rejected with the code of the first [C-7.5]. */
const judgeWhole: Stage<DeviceCommand> = ({ items }) => {
  const isAnyStanding = items.some((judged) => !judged.refusal);
  return isAnyStanding ? undefined : items[0]?.refusal;
};

function plan(items: readonly JudgedItem[], view: SiteView): PlannedDispatch[] {
  const groups = new Map<string, { deviceId: string; action: string; items: DeviceCommandItem[] }>();
  for (const { item, refusal: why } of items) {
    const subDevice = why ? undefined : findSubDevice(view, item.deviceId);
    const serving = subDevice && view.servingDevice(subDevice);
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

/** The items of a batch that a dispatch carries. */
function itemsOf(
  commands: readonly DeviceCommandItem[],
  { action, payloadText }: Waiting,
): DeviceCommandItem[] {
  const { targets = [] } = JSON.parse(payloadText) as { targets?: { deviceId: string }[] };
  const named = new Set(targets.map((target) => target.deviceId));
  return commands.filter((item) => item.command === action && named.has(item.deviceId));
}

/** The power that the valid items ask of each battery; undefined if an item asks for no power. */
export function batteryDemands(
  items: readonly JudgedItem[],
  view: SiteView,
): [string, BatteryDemand | undefined][] {
  const standing = items.filter(({ item, refusal: why }) => !why && item.assetType === 'BESS');
  return standing.map(({ item }) => [item.deviceId, demandOf(item, view)]);
}

export const deviceCommandKind: Kind<DeviceCommand> = {
  stages: [
    ['target', judgeItems],
    ['constraint', judgeSums],
    ['target', judgeWhole],
  ],
  itemStages: ITEM_CHECKS.map(([stage]) => stage),
  nearest,
  window: () => ({ waitsMs: LIMIT.deviceCommandWaitMs }),
  logColumns: ({ commands }) => ({
    priority: null,
    target: commands.map((item) => item.deviceId).join(','),
    target_value_kw: null,
  }),
  plan: (_payload, items, view) => plan(items, view),
  replan: ({ commands }, waiting, view) =>
    plan(
      itemsOf(commands, waiting).map((item) => ({ item, refusal: undefined })),
      view,
    ),
  recheck: ({ commands }, waiting, view, isSent) => {
    for (const item of itemsOf(commands, waiting)) {
      const why =
        checkTarget(item, view) ??
        checkConstraint(item, view) ??
        checkAsset(item, view) ??
        (isSent ? checkFault(item, view) : undefined);
      if (why) return why;
    }
    return undefined;
  },
};
