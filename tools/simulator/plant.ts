/**
 * A plant that behaves: PV follows the sun, the battery charges and discharges within its limits, meters only grow.
 * A setpoint is met by the battery, and by less PV where the battery cannot take all.
 * Pure: time goes in, power and registers come out. Signs: grid + = import, battery + = charge.
 */
import type { SiteConfig } from '../../protocol/site-config.ts';

export type Fallback = NonNullable<SiteConfig['fallback']>;

export interface PlantLimits {
  batteryPowerKw: number;
  batteryCapacityKwh: number;
  minSocPercent: number;
  maxSocPercent: number;
  pvPeakKw: number;
  /** The grid connection: what the gateway itself never exceeds. */
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

/** A power to hold until then [C-7.7]. */
export interface HeldSetpoint {
  targetKw: number;
  /** What is held there: the grid power, or when false that of battery, PV and chargers alone [C-7.8]. */
  includeConsumption: boolean;
  untilMs: number;
  /** How it gets there; null: at once [C-2.3]. */
  ramp: { fromKw: number; sinceMs: number; kwPerMinute: number } | null;
  /** HIGH or EMERGENCY: out of contact too it goes before a schedule. */
  isAboveSlots: boolean;
}

/** A plan for when nobody reaches the plant: the power of each slot, or null for its mode alone [C-7.9]. */
export interface AloneSchedule {
  scheduleId: string;
  /** Of two for one moment the higher counts. */
  sequence: number;
  startsAtMs: number;
  slotMs: number;
  powersKw: (number | null)[];
}

/** What the plant was told. */
export interface PlantOrders {
  /** It goes before all else. */
  setpoint: HeldSetpoint | null;
  /** Battery power asked for, kW; null: it rests. */
  batteryKw: number | null;
  /** What is left of PV production, 0 to 1. */
  pvFactor: number;
  /** Ceiling of PV production, kW; null: none. */
  pvCeilingKw: number | null;
  /** What it does by itself when it hears nothing for so long; null: nothing was agreed. */
  fallback: Fallback | null;
  schedules: readonly AloneSchedule[];
  /** An emergency stands: what each asset is held at, none at all (STOP) or what it did (HOLD). */
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

/** The plant at `atMs`, the powers holding since the state before. */
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
  const toldKw = orders.held?.batteryKw ?? orders.batteryKw ?? 0;
  const wantedKw = targetKw === undefined ? withinConnection(toldKw, restKw, limits) : targetKw - restKw;
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

/** What a setpoint holds: the grid power, or when `includeConsumption` is false the controllable part of it. */
export function heldPowerKw(state: PlantState, includeConsumption: boolean): number {
  const { gridPowerKw, batteryPowerKw, evPowerKw, pvPowerKw } = state;
  return includeConsumption ? gridPowerKw : batteryPowerKw + evPowerKw - pvPowerKw;
}

/** The grid power that the setpoint asks for at that moment; undefined where none stands. Never beyond the connection. */
function gridTargetKw({ setpoint }: PlantOrders, limits: PlantLimits, atMs: number): number | undefined {
  if (!setpoint || atMs >= setpoint.untilMs) return undefined;
  const uncountedKw = setpoint.includeConsumption ? 0 : basePower(atMs);
  return clamp(rampedKw(setpoint, atMs) + uncountedKw, -limits.maxExportKw, limits.maxImportKw);
}

/** How far its ramp lets it go by then. */
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

/** A clear day: sun from 6 to 20 hours, with passing clouds. What is held is held as long as the sun allows. */
function pvPower(atMs: number, orders: PlantOrders, limits: PlantLimits): number {
  const hour = (atMs % 86_400_000) / 3_600_000;
  const sun = hour > 6 && hour < 20 ? Math.sin(((hour - 6) / 14) * Math.PI) ** 1.5 : 0;
  if (orders.held) return Math.min(orders.held.pvKw, limits.pvPeakKw * sun);
  const clouds = 0.9 + 0.1 * wave(atMs, 420_000);
  const available = limits.pvPeakKw * sun * clouds * orders.pvFactor;
  return orders.pvCeilingKw === null ? available : Math.min(available, orders.pvCeilingKw);
}

/** Two cars that come and go. */
function evPower(atMs: number): number {
  return wave(atMs, 2_700_000) > 0.3 ? 11 : 0;
}

function basePower(atMs: number): number {
  const hour = (atMs % 86_400_000) / 3_600_000;
  const working = hour > 7 && hour < 18 ? 14 : 5;
  return working + 2 * wave(atMs, 97_000) + wave(atMs, 13_000);
}

/** Between -1 and 1, smooth, with that period. */
function wave(atMs: number, periodMs: number): number {
  return Math.sin((atMs / periodMs) * 2 * Math.PI);
}

function clamp(value: number, minimum: number, maximum: number): number {
  return Math.min(Math.max(value, minimum), Math.max(minimum, maximum));
}
