/** What a command from the platform means to the plant [C-7.10]. Pure. */
import { siteConfig } from '../../protocol/site-config.ts';
import {
  type HeldSetpoint,
  heldPowerKw,
  NO_ORDERS,
  type PlantLimits,
  type PlantOrders,
  type PlantState,
} from './plant.ts';

export interface SiteCommand {
  action: string;
  payload: Record<string, unknown>;
}

interface Target {
  deviceId: string;
  params?: { powerKw?: number; percent?: number };
}

/** The plant as a command finds it. */
export interface ToldPlant {
  limits: PlantLimits;
  /** Of the moment of the command: a ramp begins there. */
  state: PlantState;
  /** What it delivers of the power that it is told, 0 to 1. */
  share: number;
}

const OBEYED_IN_EMERGENCY = ['EMERGENCY_STOP', 'EMERGENCY_HOLD', 'MODE_CHANGE', 'CONFIG_SET'];

/** In an emergency, until a change of mode, nothing else passes but a setpoint of that priority [C-7.7]. */
function passesEmergency({ action, payload }: SiteCommand): boolean {
  return (
    OBEYED_IN_EMERGENCY.includes(action) || (action === 'SITE_SETPOINT' && payload.priority === 'EMERGENCY')
  );
}

/** The new orders, or undefined for what this plant does not obey: it does not know it, or an emergency stands. */
export function obey(orders: PlantOrders, command: SiteCommand, plant: ToldPlant): PlantOrders | undefined {
  const { limits, state, share } = plant;
  if (orders.held && !passesEmergency(command)) return undefined;
  const { action, payload } = command;
  const [target] = (payload.targets as Target[] | undefined) ?? [];
  const powerKw = share * (target?.params?.powerKw ?? limits.batteryPowerKw);
  switch (action) {
    case 'SITE_SETPOINT':
      return withSetpoint(orders, setpointOf(payload, plant));
    case 'BESS_CHARGE':
    case 'BESS_CONTINUOUS_CHARGE':
    case 'BESS_CHARGE_ONLY':
      return { ...orders, setpoint: null, batteryKw: powerKw };
    case 'BESS_DISCHARGE':
    case 'BESS_DISCHARGE_ONLY':
      return { ...orders, setpoint: null, batteryKw: -powerKw };
    case 'BESS_STOP':
      return { ...orders, setpoint: null, batteryKw: 0 };
    case 'FVE_PRODUCE_MAX':
      return { ...orders, pvFactor: 1, pvCeilingKw: null };
    case 'FVE_REDUCE_PERCENT':
      return { ...orders, pvFactor: 1 - (target?.params?.percent ?? 0) / 100 };
    case 'FVE_REDUCE_POWER':
      return { ...orders, pvCeilingKw: target?.params?.powerKw ?? 0 };
    case 'FVE_STOP':
      return { ...orders, pvFactor: 0 };
    case 'EMERGENCY_STOP':
      return { ...NO_ORDERS, fallback: orders.fallback, held: STOPPED };
    case 'EMERGENCY_HOLD':
      return { ...NO_ORDERS, fallback: orders.fallback, held: powersOf(state) };
    // The plan says the same when its last setpoint has ended: none outlives these words [C-7.7].
    case 'MODE_CHANGE':
      return { ...orders, setpoint: null, held: null };
    // Its limits are the platform's to keep while it is in contact.
    case 'CONFIG_SET': {
      const fallback = siteConfig.shape.fallback.safeParse(payload.fallback);
      return fallback.success ? { ...orders, fallback: fallback.data } : undefined;
    }
    default:
      return undefined;
  }
}

const STOPPED = { batteryKw: 0, pvKw: 0, evKw: 0 };

function powersOf({ batteryPowerKw, pvPowerKw, evPowerKw }: PlantState) {
  return { batteryKw: batteryPowerKw, pvKw: pvPowerKw, evKw: evPowerKw };
}

/** What a plant does by itself that has heard nothing for as long as was agreed [C-2.3]. An emergency stands on. */
export function fallBack(orders: PlantOrders, state: PlantState): PlantOrders {
  const { fallback } = orders;
  if (!fallback || orders.held) return orders;
  if (fallback.action === 'MODE') return { ...orders, setpoint: null };
  if (fallback.action === 'STOP') return { ...NO_ORDERS, fallback, held: STOPPED };
  const { setpointKw: targetKw } = fallback;
  if (targetKw === null) return { ...NO_ORDERS, fallback, held: powersOf(state) };
  const setpoint = { targetKw, includeConsumption: true, untilMs: Number.POSITIVE_INFINITY, ramp: null };
  return { ...NO_ORDERS, fallback, setpoint };
}

function withSetpoint(orders: PlantOrders, setpoint: HeldSetpoint | undefined): PlantOrders | undefined {
  return setpoint && { ...orders, setpoint };
}

/** Undefined without a power to hold. What a slot of a schedule does not say is said of the grid power [C-7.9]. */
function setpointOf(payload: Record<string, unknown>, { state, share }: ToldPlant): HeldSetpoint | undefined {
  const { targetSignedKw, validUntil, maxRampKwPerMinute } = payload;
  if (typeof targetSignedKw !== 'number') return undefined;
  const includeConsumption = payload.includeConsumption !== false;
  const ramp =
    typeof maxRampKwPerMinute === 'number'
      ? {
          fromKw: heldPowerKw(state, includeConsumption),
          sinceMs: state.atMs,
          kwPerMinute: maxRampKwPerMinute,
        }
      : null;
  return {
    targetKw: share * targetSignedKw,
    includeConsumption,
    untilMs: typeof validUntil === 'string' ? Date.parse(validUntil) : Number.POSITIVE_INFINITY,
    ramp,
  };
}
