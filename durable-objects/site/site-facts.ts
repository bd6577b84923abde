/** What the rules see of a site: its sub-devices, its limits, who serves what. Built once a turn; no rule writes. */
import type { ScheduleStatus } from '../../protocol/enums.ts';
import type { SiteConfig } from '../../protocol/site-config.ts';
import type { SubDevice } from '../registry/plant-copy.ts';
import type { BatteryDemand } from './command/commanded.ts';
import type { HeldEmergency } from './plan/stack.ts';

export interface ServingDevice {
  id: string;
  /** Whether commands reach it now. */
  live: boolean;
  /** For how long it has been connected; 0 while it is not. */
  connectedForMs: number;
}

export interface SiteFacts {
  /** False once the registry has no such plant any more. */
  exists: boolean;
  subDevices: readonly SubDevice[];
  /** As it stands, with what a turn has changed of it. */
  config: SiteConfig;
  /** The device that site-level commands go to; undefined when none serves the site [C-2.4]. */
  gatewayId: string | undefined;
  /** The device that a command to this sub-device goes to; undefined when there is none [C-2.4]. */
  servingDevice(subDevice: SubDevice): ServingDevice | undefined;
  /** What batteries were commanded before and still do, by external id. */
  commanded: Readonly<Record<string, BatteryDemand>>;
  /** The state of charge that a battery tells, or its site; undefined when that is older than five minutes [C-2.3]. */
  socPercent(subDevice: SubDevice): number | undefined;
  /** An emergency that holds: a mode change ends it [C-7.7]. */
  emergency: HeldEmergency | undefined;
  /** How a schedule stands; undefined where none of that id is remembered. */
  scheduleStatus(scheduleId: string): ScheduleStatus | undefined;
  /** Whether a device of that id is in service here. */
  isActive(deviceId: string): boolean;
  /** Whether commands reach a device now. */
  isLive(deviceId: string): boolean;
  /** Silent for longer than presence allows. */
  isOffline(subDevice: SubDevice): boolean;
  isInFault(subDevice: SubDevice): boolean;
}

export function findSubDevice(facts: SiteFacts, externalId: string): SubDevice | undefined {
  return facts.subDevices.find((subDevice) => subDevice.externalId === externalId);
}

/** The devices in service that sub-devices are linked to. */
export function linkedDevices(facts: SiteFacts): string[] {
  return facts.subDevices.flatMap(({ linkedDeviceId: id }) =>
    id !== null && facts.isActive(id) ? [id] : [],
  );
}
