/**
 * A plant that behaves: PV follows the sun, the battery charges and discharges within its limits, meters only grow.
 * Pure: time goes in, power and registers come out. Signs: grid + = import, battery + = charge.
 */
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

/** What the plant was told. */
export interface PlantOrders {
  /** Battery power asked for, kW; null: the battery follows the grid target, or rests. */
  batteryKw: number | null;
  /** Grid power to track, kW; null: none. */
  gridTargetKw: number | null;
  /** What is left of PV production, 0 to 1. */
  pvFactor: number;
  /** Ceiling of PV production, kW; null: none. */
  pvCeilingKw: number | null;
  /** Everything off. */
  stopped: boolean;
}

export const NO_ORDERS: PlantOrders = {
  batteryKw: null,
  gridTargetKw: null,
  pvFactor: 1,
  pvCeilingKw: null,
  stopped: false,
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

  const pvPowerKw = orders.stopped ? 0 : pvPower(atMs, orders, limits);
  const evPowerKw = orders.stopped ? 0 : evPower(atMs);
  const consumptionPowerKw = basePower(atMs) + evPowerKw;
  const restKw = consumptionPowerKw - pvPowerKw;
  const wantedKw = orders.stopped ? 0 : wantedBatteryKw(orders, restKw, limits);
  const batteryPowerKw = withinSoc(
    clamp(wantedKw, -limits.batteryPowerKw, limits.batteryPowerKw),
    socPercent,
    limits,
  );
  return {
    atMs,
    socPercent,
    pvPowerKw,
    evPowerKw,
    consumptionPowerKw,
    batteryPowerKw,
    gridPowerKw: restKw + batteryPowerKw,
    ...registers,
  };
}

/** An order to the battery, else the grid target; never beyond the grid connection. */
function wantedBatteryKw(orders: PlantOrders, restKw: number, limits: PlantLimits): number {
  const wanted = orders.batteryKw ?? (orders.gridTargetKw === null ? 0 : orders.gridTargetKw - restKw);
  return clamp(wanted, -limits.maxExportKw - restKw, limits.maxImportKw - restKw);
}

function withinSoc(powerKw: number, socPercent: number, limits: PlantLimits): number {
  if (powerKw > 0 && socPercent >= limits.maxSocPercent) return 0;
  return powerKw < 0 && socPercent <= limits.minSocPercent ? 0 : powerKw;
}

/** A clear day: sun from 6 to 20 hours, with passing clouds. */
function pvPower(atMs: number, orders: PlantOrders, limits: PlantLimits): number {
  const hour = (atMs % 86_400_000) / 3_600_000;
  const sun = hour > 6 && hour < 20 ? Math.sin(((hour - 6) / 14) * Math.PI) ** 1.5 : 0;
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
