/**
 * The simulated plant: PV follows the sun, the battery charges and discharges within its limits, registers
 * only grow. The battery is controlled so that the plant meets a setpoint; if the battery cannot charge with
 * all surplus power, PV is curtailed. Pure: time in, power and registers out. Signs: grid + = import, battery
 * + = charge.
 */
import type { SiteConfig } from '../../protocol/site-config.ts';

export type Fallback = NonNullable<SiteConfig['fallback']>;

export interface PlantLimits {
  batteryPowerKw: number;
  batteryCapacityKwh: number;
  minSocPercent: number;
  maxSocPercent: number;
  pvPeakKw: number;
  /** The grid connection: the gateway itself never exceeds these. */
  maxImportKw: number;
  maxExportKw: number;
}

export interface PlantState {
  atMs: number;
  socPercent: number;
  batteryPowerKw: number;
  pvPowerKw: number;
  evPowerKw: number;
  consumptionPowerKw: number;
  gridPowerKw: number;
  importRegisterKwh: number;
  exportRegisterKwh: number;
  productionRegisterKwh: number;
  chargeRegisterKwh: number;
  dischargeRegisterKwh: number;
  consumptionRegisterKwh: number;
}

/** A power that the plant holds until `untilMs` [C-7.7]. */
export interface HeldSetpoint {
  targetKw: number;
  /** true: the target is the grid power; false: the sum of battery, PV and chargers [C-7.8]. */
  includeConsumption: boolean;
  untilMs: number;
  /** Rate of change towards the target; null: immediately [C-2.3]. */
  ramp: { fromKw: number; sinceMs: number; kwPerMinute: number } | null;
  /** True for HIGH and EMERGENCY setpoints, which have priority over a schedule, even without contact. */
  isAboveSlots: boolean;
}

/** A schedule for times without contact: the power of each slot; null: the slot has a mode and no power [C-7.9]. */
export interface AloneSchedule {
  scheduleId: string;
  /** Of two schedules that cover the same time the plant follows the one with the higher sequence. */
  sequence: number;
  startsAtMs: number;
  slotMs: number;
  powersKw: (number | null)[];
}

/** What the platform has commanded. */
export interface PlantOrders {
  /** The active setpoint, which has priority over the battery power. */
  setpoint: HeldSetpoint | null;
  /** Commanded battery power, kW; null: the battery is idle. */
  batteryKw: number | null;
  /** Share of the available PV power that may be produced, 0 to 1. */
  pvFactor: number;
  /** Upper limit of PV production, kW; null: none. */
  pvCeilingKw: number | null;
  /** What the plant does after a given time without contact; null: not configured. */
  fallback: Fallback | null;
  schedules: readonly AloneSchedule[];
  /**
   * Set during an emergency: the power at which each asset is held, 0 (STOP) or its power at that moment
   * (HOLD).
   */
  held: { batteryKw: number; pvKw: number; evKw: number } | null;
}

export const NO_ORDERS: PlantOrders = {
  setpoint: null,
  batteryKw: null,
  pvFactor: 1,
  pvCeilingKw: null,
  fallback: null,
  schedules: [],
  held: null,
};

export function initialState(atMs: number): PlantState {
  return {
    atMs,
    socPercent: 55,
    batteryPowerKw: 0,
    pvPowerKw: 0,
    evPowerKw: 0,
    consumptionPowerKw: 0,
    gridPowerKw: 0,
    importRegisterKwh: 18_240,
    exportRegisterKwh: 6_310,
    productionRegisterKwh: 41_870,
    chargeRegisterKwh: 9_120,
    dischargeRegisterKwh: 8_460,
    consumptionRegisterKwh: 53_800,
  };
}

/** The state at `atMs`. Registers and charge grow by the powers of `before`, which are constant until then. */
export function advance(
  before: PlantState,
  orders: PlantOrders,
  limits: PlantLimits,
  atMs: number,
): PlantState {
  const hours = Math.max(0, atMs - before.atMs) / 3_600_000;
  const energy = (powerKw: number) => Math.max(0, powerKw) * hours;
  const registers = {
    importRegisterKwh: before.importRegisterKwh + energy(before.gridPowerKw),
    exportRegisterKwh: before.exportRegisterKwh + energy(-before.gridPowerKw),
    productionRegisterKwh: before.productionRegisterKwh + energy(before.pvPowerKw),
    chargeRegisterKwh: before.chargeRegisterKwh + energy(before.batteryPowerKw),
    dischargeRegisterKwh: before.dischargeRegisterKwh + energy(-before.batteryPowerKw),
    consumptionRegisterKwh: before.consumptionRegisterKwh + energy(before.consumptionPowerKw),
  };
  const storedPercent = ((before.batteryPowerKw * hours) / limits.batteryCapacityKwh) * 100;
  const socPercent = clamp(before.socPercent + storedPercent, 0, 100);

  const availablePvKw = pvPower(atMs, orders, limits);
  const evPowerKw = orders.held?.evKw ?? evPower(atMs);
  const consumptionPowerKw = basePower(atMs) + evPowerKw;
  const restKw = consumptionPowerKw - availablePvKw;
  const targetKw = gridTargetKw(orders, limits, atMs);
  const commandedKw = orders.held?.batteryKw ?? orders.batteryKw ?? 0;
  const wantedKw = targetKw === undefined ? withinConnection(commandedKw, restKw, limits) : targetKw - restKw;
  const batteryPowerKw = withinSoc(
    clamp(wantedKw, -limits.batteryPowerKw, limits.batteryPowerKw),
    socPercent,
    limits,
  );
  const excessKw = targetKw === undefined ? 0 : targetKw - (restKw + batteryPowerKw);
  const pvPowerKw = availablePvKw - clamp(excessKw, 0, availablePvKw);
  return {
    atMs,
    socPercent,
    pvPowerKw,
    evPowerKw,
    consumptionPowerKw,
    batteryPowerKw,
    gridPowerKw: consumptionPowerKw - pvPowerKw + batteryPowerKw,
    ...registers,
  };
}

/**
 * The power that a setpoint controls: the grid power, or the controllable part of it (`includeConsumption:
 * false`).
 */
export function heldPowerKw(state: PlantState, includeConsumption: boolean): number {
  const { gridPowerKw, batteryPowerKw, evPowerKw, pvPowerKw } = state;
  return includeConsumption ? gridPowerKw : batteryPowerKw + evPowerKw - pvPowerKw;
}

/** The grid power that the active setpoint requires, within the connection's limits; undefined without one. */
function gridTargetKw({ setpoint }: PlantOrders, limits: PlantLimits, atMs: number): number | undefined {
  if (!setpoint || atMs >= setpoint.untilMs) return undefined;
  const uncountedKw = setpoint.includeConsumption ? 0 : basePower(atMs);
  return clamp(rampedKw(setpoint, atMs) + uncountedKw, -limits.maxExportKw, limits.maxImportKw);
}

/** The target at `atMs`, as far as the ramp allows. */
function rampedKw({ targetKw, ramp }: HeldSetpoint, atMs: number): number {
  if (!ramp) return targetKw;
  const reachKw = (ramp.kwPerMinute * Math.max(0, atMs - ramp.sinceMs)) / 60_000;
  return clamp(targetKw, ramp.fromKw - reachKw, ramp.fromKw + reachKw);
}

function withinConnection(batteryKw: number, restKw: number, limits: PlantLimits): number {
  return clamp(batteryKw, -limits.maxExportKw - restKw, limits.maxImportKw - restKw);
}

function withinSoc(powerKw: number, socPercent: number, limits: PlantLimits): number {
  if (powerKw > 0 && socPercent >= limits.maxSocPercent) return 0;
  return powerKw < 0 && socPercent <= limits.minSocPercent ? 0 : powerKw;
}

/**
 * A clear day: sun from 6 to 20 hours, with passing clouds. A HOLD keeps its PV power as long as the sun
 * allows.
 */
function pvPower(atMs: number, orders: PlantOrders, limits: PlantLimits): number {
  const hour = (atMs % 86_400_000) / 3_600_000;
  const sun = hour > 6 && hour < 20 ? Math.sin(((hour - 6) / 14) * Math.PI) ** 1.5 : 0;
  if (orders.held) return Math.min(orders.held.pvKw, limits.pvPeakKw * sun);
  const clouds = 0.9 + 0.1 * wave(atMs, 420_000);
  const available = limits.pvPeakKw * sun * clouds * orders.pvFactor;
  return orders.pvCeilingKw === null ? available : Math.min(available, orders.pvCeilingKw);
}

/** A car that charges with 11 kW from time to time. */
function evPower(atMs: number): number {
  return wave(atMs, 2_700_000) > 0.3 ? 11 : 0;
}

function basePower(atMs: number): number {
  const hour = (atMs % 86_400_000) / 3_600_000;
  const working = hour > 7 && hour < 18 ? 14 : 5;
  return working + 2 * wave(atMs, 97_000) + wave(atMs, 13_000);
}

/** A sine wave between -1 and 1 with the given period. */
function wave(atMs: number, periodMs: number): number {
  return Math.sin((atMs / periodMs) * 2 * Math.PI);
}

function clamp(value: number, minimum: number, maximum: number): number {
  return Math.min(Math.max(value, minimum), Math.max(minimum, maximum));
}
