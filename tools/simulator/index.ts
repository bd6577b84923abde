/** The simulated plant as a process: told by its parent who it is, until the parent ends it. */
import { readFileSync } from 'node:fs';
import { CONSTRAINTS, SUB_DEVICES } from '../seed.ts';
import { BEHAVIOURS, type Behaviour, type BehaviourName } from './behaviour.ts';
import { Gateway, type GatewayOptions } from './gateway.ts';
import { Identity, type IdentityOptions } from './identity.ts';
import { type Alone, alone, obey } from './orders.ts';
import { advance, initialState, NO_ORDERS, type PlantLimits } from './plant.ts';

export interface SimulatorStart extends Omit<IdentityOptions, 'file'> {
  kind: 'start';
  behaviour: BehaviourName;
  host: string;
  port: number;
  caFile: string;
  /** Where it keeps who it is. */
  identityFile: string;
  intervalMs: number;
}

/** What it tells its parent: that it is provisioned, at its start; that commands reach it from here on, at each session. */
export interface SimulatorWord {
  kind: 'provisioned' | 'listening';
}

function say(word: SimulatorWord): void {
  process.send?.(word);
}

const subDevice = (assetType: string) => SUB_DEVICES.find((one) => one.assetType === assetType);
const LIMITS: PlantLimits = {
  batteryPowerKw: subDevice('BESS')?.ratedPowerKw ?? 50,
  batteryCapacityKwh: subDevice('BESS')?.capacityKwh ?? 100,
  minSocPercent: CONSTRAINTS.minSocPercent ?? 0,
  maxSocPercent: CONSTRAINTS.maxSocPercent ?? 100,
  pvPeakKw: subDevice('FVE')?.ratedPowerKw ?? 80,
  maxImportKw: CONSTRAINTS.maxImportKw ?? 120,
  maxExportKw: CONSTRAINTS.maxExportKw ?? 90,
};

let state = initialState(Date.now());
let orders = NO_ORDERS;
/** What it does by itself instead, while nobody reaches it. */
let byItself: Alone;
let heardAtMs = Date.now();
let gateway: Gateway | undefined;

/** In contact it does as it was told; without, by its schedule, or by its fallback after the time that was agreed. */
function lookAround(): void {
  if (gateway?.connected) {
    byItself = undefined;
    heardAtMs = Date.now();
    return;
  }
  const before = byItself;
  byItself = alone(before, orders, state, Date.now() - heardAtMs);
  if (byItself?.isFallback && !before?.isFallback) {
    console.error('simulator: heard nothing for as long as was agreed, the fallback is engaged');
  }
}

function step({ inFault }: Behaviour): Record<string, number> {
  state = advance(state, byItself?.orders ?? orders, LIMITS, Date.now());
  const round = (value: number) => Math.round(value * 1_000) / 1_000;
  // Told in either case: a fault of an earlier run would stand.
  const faults = SUB_DEVICES.map(({ deviceId }) => [`${deviceId}/fault`, inFault ? 1 : 0]);
  return {
    ...Object.fromEntries(faults),
    fallbackActive: byItself?.isFallback ? 1 : 0,
    gridPowerKw: round(state.gridPowerKw),
    fvePowerKw: round(state.pvPowerKw),
    batteryPowerKw: round(state.batteryPowerKw),
    consumptionPowerKw: round(state.consumptionPowerKw),
    'BESS-1/powerKw': round(state.batteryPowerKw),
    'BESS-1/socPercent': round(state.socPercent),
    'BESS-1/availableCapacityKwh': round((LIMITS.batteryCapacityKwh * state.socPercent) / 100),
    'BESS-1/temperatureCelsius': round(24 + Math.abs(state.batteryPowerKw) / 10),
    'BESS-1/chargeRegisterKwh': round(state.chargeRegisterKwh),
    'BESS-1/dischargeRegisterKwh': round(state.dischargeRegisterKwh),
    'FVE-1/powerKw': round(state.pvPowerKw),
    'FVE-1/regulationPercent': round(orders.pvFactor * 100),
    'FVE-1/productionRegisterKwh': round(state.productionRegisterKwh),
    'METER-1/powerKw': round(state.gridPowerKw),
    'METER-1/importRegisterKwh': round(state.importRegisterKwh),
    'METER-1/exportRegisterKwh': round(state.exportRegisterKwh),
    'METER-1/consumptionRegisterKwh': round(state.consumptionRegisterKwh),
    'EV-1/powerKw': round(state.evPowerKw),
  };
}

function report(behaviour: Behaviour): void {
  const data = step(behaviour);
  lookAround();
  if (!gateway?.connected || !behaviour.reports) return;
  gateway.publishTelemetry(data).catch((error: unknown) => console.error(`simulator: ${String(error)}`));
}

async function start(told: SimulatorStart): Promise<void> {
  const { behaviour: name, host, port, caFile, identityFile, intervalMs, deviceId } = told;
  const behaviour: Behaviour = BEHAVIOURS[name];
  const { answers, ackDelayMs, inFault, share } = behaviour;
  const identity = await Identity.ensure({ ...told, file: identityFile });
  say({ kind: 'provisioned' });
  if (!behaviour.connects) return;
  const options: GatewayOptions = {
    host,
    port,
    ca: readFileSync(caFile, 'utf8'),
    deviceId,
    hmacSecret: identity.hmacSecret,
    token: identity.token,
    onToken: (token, expiresAt) => identity.takeToken(token, expiresAt),
    renew: () => identity.renew(),
    onListening: () => say({ kind: 'listening' }),
    answers,
    ackDelayMs,
  };
  gateway = new Gateway(options, (command) => {
    state = advance(state, byItself?.orders ?? orders, LIMITS, Date.now());
    byItself = undefined;
    const next = inFault ? undefined : obey(orders, command, { limits: LIMITS, state, share });
    if (!next) return false;
    orders = next;
    // The new powers are told at once, not at the next round.
    setImmediate(report, behaviour);
    return true;
  });
  setInterval(report, intervalMs, behaviour);
}

process.on('message', (message: SimulatorStart) => {
  start(message).catch((error: unknown) => {
    // Its parent starts it again.
    console.error(`simulator: ${String(error)}`);
    process.exit(1);
  });
});
process.on('disconnect', () => process.exit(0));
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    void gateway?.stop().finally(() => process.exit(0));
    if (!gateway) process.exit(0);
  });
}
