/**
 * The data of a site that the rules read: for example its sub-devices, its limits, its emergency, and which
 * device serves the site and each sub-device. Built once a turn; read-only.
 */
import type { BatteryLimit } from '../../protocol/asset.ts';
import type { EmergencyType, ScheduleStatus } from '../../protocol/enums.ts';
import type { SiteConfig } from '../../protocol/site-config.ts';
import type { SubDevice } from '../../registry/plant-copy.ts';
import type { Turn } from '../object/turn.ts';

export interface ServingDevice {
  id: string;
  /** Whether commands reach the device now. */
  live: boolean;
  /** How long the device has been connected, milliseconds; 0 while it is not connected. */
  connectedForMs: number;
}

/** An emergency that is active until a newer mode change ends it. */
export interface ActiveEmergency {
  /** The sequence of the emergency's command. */
  sequence: number;
  type: EmergencyType;
}

/** The power that a command asks of a battery, kW, and the limit that it counts against. */
export interface BatteryDemand {
  limit: BatteryLimit;
  powerKw: number;
  /** The partner that asks for it. */
  partnerId?: string;
  /** The partner whose command is judged must not read the power. */
  isHidden?: true;
}

export interface SiteView {
  /** False when the registry has no such plant. */
  exists: boolean;
  subDevices: readonly SubDevice[];
  /** The configuration in force, including changes of this turn. */
  config: SiteConfig;
  /** The device that gets site-level commands; undefined when no device serves the site [C-2.4]. */
  gatewayId: string | undefined;
  /** The device that gets commands for this sub-device; undefined when there is none [C-2.4]. */
  servingDevice(subDevice: SubDevice): ServingDevice | undefined;
  /** What earlier commands still ask of batteries, by external id. */
  batteryDemands: Readonly<Record<string, BatteryDemand>>;
  /** The state of charge of a battery, else of the site; undefined if unknown or older than five minutes [C-2.3]. */
  socPercent(subDevice: SubDevice): number | undefined;
  /** The active emergency [C-7.7]. */
  emergency: ActiveEmergency | undefined;
  /** The devices that an emergency was for and that have acknowledged no mode since [C-7.7]. */
  unreleased: readonly string[];
  /**
   * Undefined when the partner has no stored schedule with this id. The rules that judge a command ask without
   * `partnerId`: they are given the view of its partner (`recording`).
   */
  scheduleStatus(scheduleId: string, partnerId?: string): ScheduleStatus | undefined;
  /** Whether this device belongs to the site and is ACTIVE. */
  isActive(deviceId: string): boolean;
  /** Whether commands reach a device now. */
  isLive(deviceId: string): boolean;
  /** Whether the sub-device has been silent for longer than presence allows. */
  isOffline(subDevice: SubDevice): boolean;
  isInFault(subDevice: SubDevice): boolean;
}

/** Returns the view of a turn. */
export type ViewOf = (turn: Turn) => SiteView;

export function findSubDevice(view: SiteView, externalId: string): SubDevice | undefined {
  return view.subDevices.find((subDevice) => subDevice.externalId === externalId);
}

/** The ACTIVE devices that sub-devices are linked to. */
export function linkedDevices(view: SiteView): string[] {
  return view.subDevices.flatMap(({ linkedDeviceId: id }) => (id !== null && view.isActive(id) ? [id] : []));
}
