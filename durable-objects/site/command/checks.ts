/**
 * The checks of one command against its site, pure: site facts in, refusal out (spec: Command processing; [C-7.4]).
 * Order: target, constraint, asset, then topology and fault. So a wrong-type command over a limit is a violation.
 */
import {
  type Command,
  type DeviceCommandItem,
  type ModeChange,
  type SiteSetpoint,
  targetSignedKw,
} from '../../../protocol/command.ts';
import { type Constraints, UNLIMITED } from '../../../protocol/config.ts';
import type { AssetType } from '../../../protocol/enums.ts';
import type { SubDevice } from '../schema.ts';
import { type Refusal, refusal, violated } from './refusal.ts';

/** What the checks see of a site. */
export interface SiteFacts {
  subDevices: readonly SubDevice[];
  constraints: Constraints | null;
  hardLimits: Constraints | null;
  /** The device that a command to this sub-device goes to; undefined when there is none [C-2.4]. */
  servingDevice(subDevice: SubDevice): { id: string; live: boolean } | undefined;
  /** Whether a device of that id is in service here. */
  isActive(deviceId: string): boolean;
  /** Whether any gateway or controller serves the site. */
  hasGateway: boolean;
  /** Silent for longer than presence allows. */
  isOffline(subDevice: SubDevice): boolean;
  inFault(subDevice: SubDevice): boolean;
}

type LimitName = 'maxImportKw' | 'maxExportKw' | 'maxChargeKw' | 'maxDischargeKw';

function overLimit(facts: SiteFacts, name: LimitName, value: number, deviceId?: string): Refusal | undefined {
  const sources = [
    { constraint: name, limit: (facts.constraints ?? UNLIMITED)[name] },
    { constraint: `hardLimits.${name}`, limit: (facts.hardLimits ?? UNLIMITED)[name] },
  ];
  for (const { constraint, limit } of sources) {
    if (limit === null || value <= limit) continue;
    return violated({ constraint, limit, value, unit: 'kW', ...(deviceId ? { deviceId } : {}) });
  }
  return undefined;
}

// site-level commands

/** A site-level command needs a gateway or controller; an emergency also reaches linked devices [C-2.4]. */
export function checkSiteTarget(command: Command, facts: SiteFacts): Refusal | undefined {
  if (facts.hasGateway) return undefined;
  if (command.commandType === 'EMERGENCY' && linkedDevices(facts).length > 0) return undefined;
  return refusal('DEVICE_OFFLINE', 'no gateway serves this site');
}

/** The devices in service that sub-devices are linked to. */
export function linkedDevices(facts: SiteFacts): string[] {
  return facts.subDevices.flatMap(({ linkedDeviceId: id }) =>
    id !== null && facts.isActive(id) ? [id] : [],
  );
}

export function checkSetpointConstraint(setpoint: SiteSetpoint, facts: SiteFacts): Refusal | undefined {
  const name = setpoint.direction === 'IMPORT' ? 'maxImportKw' : 'maxExportKw';
  return overLimit(facts, name, Math.abs(targetSignedKw(setpoint)));
}

const EXPORTING: readonly AssetType[] = ['FVE', 'INVERTER', 'BESS'];
const MODE_ASSETS: Partial<Record<ModeChange['mode'], readonly AssetType[]>> = {
  MAX_EXPORT: EXPORTING,
  ZERO_EXPORT: EXPORTING,
  PEAK_SHAVING: ['BESS'],
  GRID_TARGET: ['BESS'],
  LDS_SUPPORT: ['BESS'],
};

export function checkTopology(command: Command, facts: SiteFacts): Refusal | undefined {
  const needed = neededAssets(command);
  if (!needed || facts.subDevices.some((asset) => needed.includes(asset.assetType))) return undefined;
  return refusal('UNSUPPORTED_FOR_TOPOLOGY', `the site has no ${needed.join(', ')}`);
}

function neededAssets(command: Command): readonly AssetType[] | undefined {
  if (command.commandType === 'MODE_CHANGE') return MODE_ASSETS[command.payload.mode];
  if (command.commandType === 'SITE_SETPOINT' && command.payload.direction === 'EXPORT') return EXPORTING;
  return undefined;
}

// one item of a device command

export function checkItemTarget(item: DeviceCommandItem, facts: SiteFacts): Refusal | undefined {
  const asset = findAsset(item, facts);
  if (!asset) return refusal('DEVICE_OFFLINE', `${item.deviceId} is not in the site's topology`);
  const serving = facts.servingDevice(asset);
  if (!serving) return refusal('DEVICE_OFFLINE', `no device serves ${item.deviceId}`);
  if (serving.live && facts.isOffline(asset)) return refusal('DEVICE_OFFLINE', `${item.deviceId} is offline`);
  return undefined;
}

/** The battery power that an item asks for, and in which direction; undefined for what moves none. */
export function batteryDemand(
  item: DeviceCommandItem,
  facts: SiteFacts,
): { limit: 'maxChargeKw' | 'maxDischargeKw'; powerKw: number } | undefined {
  const limit = BATTERY_LIMITS[item.command];
  if (!limit) return undefined;
  const powerKw = item.params?.powerKw ?? findAsset(item, facts)?.ratedPowerKw ?? undefined;
  return powerKw === undefined ? undefined : { limit, powerKw };
}

const BATTERY_LIMITS: Partial<Record<DeviceCommandItem['command'], 'maxChargeKw' | 'maxDischargeKw'>> = {
  BESS_CHARGE: 'maxChargeKw',
  BESS_CONTINUOUS_CHARGE: 'maxChargeKw',
  BESS_CHARGE_ONLY: 'maxChargeKw',
  BESS_DISCHARGE: 'maxDischargeKw',
  BESS_DISCHARGE_ONLY: 'maxDischargeKw',
};

export function checkItemConstraint(item: DeviceCommandItem, facts: SiteFacts): Refusal | undefined {
  const demand = batteryDemand(item, facts);
  return demand && overLimit(facts, demand.limit, demand.powerKw, item.deviceId);
}

/** The sum of a direction over all items that stand so far. */
export function checkSum(
  limit: 'maxChargeKw' | 'maxDischargeKw',
  powerKw: number,
  facts: SiteFacts,
): Refusal | undefined {
  return overLimit(facts, limit, powerKw);
}

export function checkItemAsset(item: DeviceCommandItem, facts: SiteFacts): Refusal | undefined {
  const asset = findAsset(item, facts);
  if (!asset) return undefined;
  if (asset.assetType !== item.assetType) {
    return refusal('INVALID_COMMAND', `${item.deviceId} is a ${asset.assetType}, not a ${item.assetType}`);
  }
  const wanted = item.command.startsWith('FVE_') ? 'FVE' : 'BESS';
  if (asset.assetType === wanted) return undefined;
  return refusal('INVALID_COMMAND', `${item.command} is not for a ${asset.assetType}`);
}

export function checkItemFault(item: DeviceCommandItem, facts: SiteFacts): Refusal | undefined {
  const asset = findAsset(item, facts);
  if (!asset || !facts.inFault(asset)) return undefined;
  return refusal('DEVICE_FAULT', `${item.deviceId} reports a fault`);
}

export function findAsset(item: DeviceCommandItem, facts: SiteFacts): SubDevice | undefined {
  return facts.subDevices.find((asset) => asset.externalId === item.deviceId);
}
