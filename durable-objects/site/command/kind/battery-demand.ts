/** What the items of a batch, and earlier commands, ask of the batteries of a site [C-2.3]. Pure. */
import { type BatteryLimit, deviceCommandRule } from '../../../../protocol/asset.ts';
import type { DeviceCommandItem } from '../../../../protocol/command.ts';
import { type BatteryDemand, findSubDevice, type SiteView } from '../../site-view.ts';

export const BATTERY_LIMITS: readonly BatteryLimit[] = ['maxChargeKw', 'maxDischargeKw'];

/** The battery power that an item asks for and its limit; undefined if it asks for none or the power is unknown. */
export function demandOf(item: DeviceCommandItem, view: SiteView): BatteryDemand | undefined {
  const { limit } = deviceCommandRule(item.command);
  if (!limit) return undefined;
  const powerKw = item.params?.powerKw ?? findSubDevice(view, item.deviceId)?.ratedPowerKw ?? undefined;
  return powerKw === undefined ? undefined : { limit, powerKw };
}

/** The active demands on batteries that the items do not name. */
export function earlierDemands(
  items: readonly DeviceCommandItem[],
  limit: BatteryLimit,
  view: SiteView,
): BatteryDemand[] {
  const named = new Set(items.map(({ deviceId }) => deviceId));
  const others = Object.entries(view.batteryDemands).filter(([id]) => !named.has(id));
  return others.flatMap(([, demand]) => (demand.limit === limit ? [demand] : []));
}

export function sumKw(demands: readonly { powerKw: number }[]): number {
  return demands.reduce((sum, { powerKw }) => sum + powerKw, 0);
}
