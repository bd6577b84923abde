/** How a command from the platform changes what the simulated plant does [C-7.10]. Pure. */
import * as z from 'zod';
import { siteConfig } from '../../protocol/site-config.ts';
import {
  type AloneSchedule,
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

/** The plant at the moment of a command. */
export interface PlantAtCommand {
  limits: PlantLimits;
  /** State at the moment of the command: a ramp begins there. */
  state: PlantState;
  /** Which share of the commanded power the plant delivers, 0 to 1. */
  share: number;
}

const OBEYED_IN_EMERGENCY = [
  'EMERGENCY_STOP',
  'EMERGENCY_HOLD',
  'MODE_CHANGE',
  'CONFIG_SET',
  'SCHEDULE_SET',
  'SCHEDULE_CANCEL',
];

/**
 * During an emergency these actions, EMERGENCY setpoints and commands that stop an asset are executed, and no others,
 * until a mode change [C-7.7].
 */
function passesEmergency({ action, payload }: SiteCommand): boolean {
  return (
    OBEYED_IN_EMERGENCY.includes(action) || (action === 'SITE_SETPOINT' && payload.priority === 'EMERGENCY')
  );
}

/** During an emergency: the asset that the command stops or limits to zero, which stays so. */
function stoppedIn(orders: PlantOrders, { action, payload }: SiteCommand): PlantOrders | undefined {
  const [target] = (payload.targets as Target[] | undefined) ?? [];
  const { powerKw, percent } = target?.params ?? {};
  const isStop = action.endsWith('_STOP') || powerKw === 0 || percent === 100;
  if (!orders.held || !isStop) return undefined;
  if (action.startsWith('BESS_')) return { ...orders, held: { ...orders.held, batteryKw: 0 } };
  return action.startsWith('FVE_') ? { ...orders, held: { ...orders.held, pvKw: 0 } } : undefined;
}

/** Returns the new orders; undefined if the plant does not know the action or payload, or an emergency forbids it. */
export function obey(
  orders: PlantOrders,
  command: SiteCommand,
  plant: PlantAtCommand,
): PlantOrders | undefined {
  const { limits, state, share } = plant;
  if (orders.held && !passesEmergency(command)) return stoppedIn(orders, command);
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
      return { ...NO_ORDERS, ...agreedIn(orders), held: STOPPED };
    case 'EMERGENCY_HOLD':
      return { ...NO_ORDERS, ...agreedIn(orders), held: powersOf(state) };
    // The platform also sends a mode when the last setpoint has ended: no setpoint outlives a mode [C-7.7].
    case 'MODE_CHANGE':
      return { ...orders, setpoint: null, held: null };
    // Of the configuration the plant stores only the fallback, because the platform enforces the limits while
    // there is contact.
    case 'CONFIG_SET': {
      const fallback = siteConfig.shape.fallback.safeParse(payload.fallback);
      return fallback.success ? { ...orders, fallback: fallback.data } : undefined;
    }
    case 'SCHEDULE_SET':
      return withSchedule(orders, payload, state.atMs);
    case 'SCHEDULE_CANCEL':
      return {
        ...orders,
        schedules: orders.schedules.filter((one) => one.scheduleId !== payload.scheduleId),
      };
    default:
      return undefined;
  }
}

/** Fallback and schedules: only CONFIG_SET, SCHEDULE_SET and SCHEDULE_CANCEL change them. */
function agreedIn({ fallback, schedules }: PlantOrders): Pick<PlantOrders, 'fallback' | 'schedules'> {
  return { fallback, schedules };
}

const scheduleCommand = z.object({
  scheduleId: z.string(),
  sequence: z.number(),
  startTime: z.iso.datetime(),
  slotDurationMinutes: z.number().positive(),
  slots: z.array(z.object({ setpoint: z.object({ value: z.number() }).nullable() })),
});

/** Adds or replaces a schedule and drops the schedules that have ended. */
function withSchedule(orders: PlantOrders, payload: unknown, atMs: number): PlantOrders | undefined {
  const parsed = scheduleCommand.safeParse(payload);
  if (!parsed.success) return undefined;
  const { scheduleId, sequence, startTime, slotDurationMinutes, slots } = parsed.data;
  const others = orders.schedules.filter((one) => one.scheduleId !== scheduleId && endOf(one) > atMs);
  const schedule = {
    scheduleId,
    sequence,
    startsAtMs: Date.parse(startTime),
    slotMs: slotDurationMinutes * 60_000,
    powersKw: slots.map(({ setpoint }) => setpoint?.value ?? null),
  };
  return { ...orders, schedules: [...others, schedule] };
}

function endOf({ startsAtMs, slotMs, powersKw }: AloneSchedule): number {
  return startsAtMs + slotMs * powersKw.length;
}

/**
 * The orders of a plant without contact, and whether they are its fallback; undefined: it follows its last
 * orders.
 */
export type Alone = { orders: PlantOrders; isFallback: boolean } | undefined;

/**
 * Without contact the plant follows the slot that is due [C-7.9]; without a slot it engages its fallback once
 * the agreed time has passed since the last contact [C-2.3]. A HIGH setpoint stays active until its end, an
 * emergency without a limit. `before`: the previous result, because an engaged fallback stays engaged.
 */
export function alone(before: Alone, orders: PlantOrders, state: PlantState, silentMs: number): Alone {
  const { setpoint, fallback, held } = orders;
  const { atMs } = state;
  if (held || (setpoint?.isAboveSlots && atMs < setpoint.untilMs)) return undefined;
  const slot = slotAt(orders.schedules, atMs);
  if (slot) return { orders: { ...orders, setpoint: slot.setpoint }, isFallback: false };
  if (!fallback || silentMs < fallback.afterSeconds * 1_000) return undefined;
  return before?.isFallback ? before : { orders: fallBack(orders, state), isFallback: true };
}

function slotAt(
  schedules: readonly AloneSchedule[],
  atMs: number,
): { setpoint: HeldSetpoint | null } | undefined {
  const standing = schedules.filter((one) => one.startsAtMs <= atMs && atMs < endOf(one));
  const [newest] = standing.sort((left, right) => right.sequence - left.sequence);
  if (!newest) return undefined;
  const index = Math.floor((atMs - newest.startsAtMs) / newest.slotMs);
  const targetKw = newest.powersKw[index] ?? null;
  if (targetKw === null) return { setpoint: null };
  const untilMs = newest.startsAtMs + (index + 1) * newest.slotMs;
  return { setpoint: { targetKw, includeConsumption: true, untilMs, ramp: null, isAboveSlots: false } };
}

const STOPPED = { batteryKw: 0, pvKw: 0, evKw: 0 };

function powersOf({ batteryPowerKw, pvPowerKw, evPowerKw }: PlantState) {
  return { batteryKw: batteryPowerKw, pvKw: pvPowerKw, evKw: evPowerKw };
}

/** The orders of the configured fallback [C-2.3]. An emergency stays active. */
export function fallBack(orders: PlantOrders, state: PlantState): PlantOrders {
  const { fallback } = orders;
  if (!fallback || orders.held) return orders;
  if (fallback.action === 'MODE') return { ...orders, setpoint: null };
  const agreed = agreedIn(orders);
  if (fallback.action === 'STOP') return { ...NO_ORDERS, ...agreed, held: STOPPED };
  const { setpointKw: targetKw } = fallback;
  if (targetKw === null) return { ...NO_ORDERS, ...agreed, held: powersOf(state) };
  const untilMs = Number.POSITIVE_INFINITY;
  const setpoint = { targetKw, includeConsumption: true, untilMs, ramp: null, isAboveSlots: false };
  return { ...NO_ORDERS, ...agreed, setpoint };
}

function withSetpoint(orders: PlantOrders, setpoint: HeldSetpoint | undefined): PlantOrders | undefined {
  return setpoint && { ...orders, setpoint };
}

/**
 * undefined if there is no power to hold. A schedule slot does not set includeConsumption: its power is grid
 * power [C-7.9].
 */
function setpointOf(
  payload: Record<string, unknown>,
  { state, share }: PlantAtCommand,
): HeldSetpoint | undefined {
  const { targetSignedKw, validUntil, maxRampKwPerMinute, priority } = payload;
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
    isAboveSlots: priority === 'HIGH' || priority === 'EMERGENCY',
  };
}
