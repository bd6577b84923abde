/** What a command from the platform means to the plant [C-7.10]. Pure. */
import type { PlantLimits, PlantOrders } from './plant.ts';
import { NO_ORDERS } from './plant.ts';

export interface SiteCommand {
  action: string;
  payload: Record<string, unknown>;
}

interface Target {
  deviceId: string;
  params?: { powerKw?: number; percent?: number };
}

/** What a plant that an emergency has stopped still obeys: only a change of mode sets it going again [C-7.7]. */
const OBEYED_WHEN_STOPPED = ['EMERGENCY_STOP', 'EMERGENCY_HOLD', 'MODE_CHANGE'];

/** The new orders, or undefined for what this plant does not obey: it does not know it, or is stopped. */
export function obey(
  orders: PlantOrders,
  command: SiteCommand,
  limits: PlantLimits,
): PlantOrders | undefined {
  if (orders.stopped && !OBEYED_WHEN_STOPPED.includes(command.action)) return undefined;
  const [target] = (command.payload.targets as Target[] | undefined) ?? [];
  const powerKw = target?.params?.powerKw ?? limits.batteryPowerKw;
  switch (command.action) {
    case 'SITE_SETPOINT':
      return { ...orders, gridTargetKw: Number(command.payload.targetSignedKw), batteryKw: null };
    case 'BESS_CHARGE':
    case 'BESS_CONTINUOUS_CHARGE':
    case 'BESS_CHARGE_ONLY':
      return { ...orders, batteryKw: powerKw };
    case 'BESS_DISCHARGE':
    case 'BESS_DISCHARGE_ONLY':
      return { ...orders, batteryKw: -powerKw };
    case 'BESS_STOP':
      return { ...orders, batteryKw: 0 };
    case 'FVE_PRODUCE_MAX':
      return { ...orders, pvFactor: 1, pvCeilingKw: null };
    case 'FVE_REDUCE_PERCENT':
      return { ...orders, pvFactor: 1 - (target?.params?.percent ?? 0) / 100 };
    case 'FVE_REDUCE_POWER':
      return { ...orders, pvCeilingKw: target?.params?.powerKw ?? 0 };
    case 'FVE_STOP':
      return { ...orders, pvFactor: 0 };
    case 'EMERGENCY_STOP':
      return { ...NO_ORDERS, stopped: true };
    case 'EMERGENCY_HOLD':
      return orders;
    case 'MODE_CHANGE':
      return { ...orders, stopped: false };
    default:
      return undefined;
  }
}
