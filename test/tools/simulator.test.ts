/** The simulated plant: a day of it within its limits, and what it makes of the commands that it is told. */
import { describe, expect, it } from 'vitest';
import { obey, type ToldPlant } from '../../tools/simulator/orders.ts';
import {
  advance,
  initialState,
  NO_ORDERS,
  type PlantLimits,
  type PlantOrders,
  type PlantState,
} from '../../tools/simulator/plant.ts';

const LIMITS: PlantLimits = {
  batteryPowerKw: 50,
  batteryCapacityKwh: 100,
  minSocPercent: 10,
  maxSocPercent: 95,
  pvPeakKw: 60,
  maxImportKw: 80,
  maxExportKw: 40,
};
const AT_NOON: ToldPlant = {
  limits: LIMITS,
  state: { ...initialState(0), batteryPowerKw: -7, pvPowerKw: 31, evPowerKw: 11 },
  share: 1,
};
const MIDNIGHT = Date.UTC(2026, 5, 21);
const HOUR = 3_600_000;
const STEP_MS = 10_000;
/** What one step moves the state of charge at full power. */
const STEP_PERCENT = ((LIMITS.batteryPowerKw * STEP_MS) / HOUR / LIMITS.batteryCapacityKwh) * 100;

/** Each step from one hour of the day to another. */
function run(orders: PlantOrders, fromHour: number, toHour: number): PlantState[] {
  const states = [initialState(MIDNIGHT + fromHour * HOUR)];
  for (let atMs = MIDNIGHT + fromHour * HOUR; atMs <= MIDNIGHT + toHour * HOUR; atMs += STEP_MS) {
    states.push(advance(states.at(-1) as PlantState, orders, LIMITS, atMs));
  }
  return states.slice(1);
}

/** What became of these commands, told to a plant that works and stands as it does at noon. */
function told(...actions: [string, Record<string, unknown>][]): PlantOrders | undefined {
  let orders: PlantOrders | undefined = NO_ORDERS;
  for (const [action, payload] of actions) orders = orders && obey(orders, { action, payload }, AT_NOON);
  return orders;
}

function toBattery(powerKw: number): Record<string, unknown> {
  return { targets: [{ deviceId: 'BESS-1', params: { powerKw } }] };
}

describe('the simulated plant', () => {
  it('produces nothing at night and most about noon', () => {
    const powers = run(NO_ORDERS, 0, 24);
    const pvAt = (hour: number) =>
      powers.find((state) => state.atMs >= MIDNIGHT + hour * HOUR)?.pvPowerKw ?? -1;
    expect(pvAt(3)).toBe(0);
    expect(pvAt(23)).toBe(0);
    expect(pvAt(13)).toBeGreaterThan(0.7 * LIMITS.pvPeakKw);
    expect(pvAt(13)).toBeGreaterThan(pvAt(8));
    for (const state of powers) expect(state.pvPowerKw).toBeLessThanOrEqual(LIMITS.pvPeakKw);
  });

  it.each([
    ['charging', 500],
    ['discharging', -500],
  ])('keeps battery and grid within their limits, %s beyond them all day', (_name, batteryKw) => {
    for (const state of run({ ...NO_ORDERS, batteryKw }, 0, 24)) {
      expect(Math.abs(state.batteryPowerKw)).toBeLessThanOrEqual(LIMITS.batteryPowerKw);
      expect(state.socPercent).toBeGreaterThanOrEqual(LIMITS.minSocPercent - STEP_PERCENT);
      expect(state.socPercent).toBeLessThanOrEqual(LIMITS.maxSocPercent + STEP_PERCENT);
      if (state.batteryPowerKw > 0) expect(state.gridPowerKw).toBeLessThanOrEqual(LIMITS.maxImportKw + 1e-9);
      if (state.batteryPowerKw < 0)
        expect(state.gridPowerKw).toBeGreaterThanOrEqual(-LIMITS.maxExportKw - 1e-9);
    }
  });

  it('has registers that only grow, and that agree with each other', () => {
    const states = run({ ...NO_ORDERS, setpoint: { gridKw: 0, untilMs: Number.POSITIVE_INFINITY } }, 0, 24);
    const registers = Object.keys(initialState(0)).filter((name) => name.endsWith('RegisterKwh'));
    expect(registers).toHaveLength(6);
    for (const name of registers as (keyof PlantState)[]) {
      for (const [index, state] of states.entries()) {
        expect(state[name]).toBeGreaterThanOrEqual(states[index - 1]?.[name] ?? 0);
      }
    }
    const [first, last] = [states[0], states.at(-1)] as [PlantState, PlantState];
    const grown = (name: keyof PlantState) => last[name] - first[name];
    const into = grown('importRegisterKwh') + grown('productionRegisterKwh') + grown('dischargeRegisterKwh');
    const outOf = grown('exportRegisterKwh') + grown('consumptionRegisterKwh') + grown('chargeRegisterKwh');
    expect(into).toBeCloseTo(outOf, 6);
    expect(grown('productionRegisterKwh')).toBeGreaterThan(100);
  });

  it('follows a grid target as far as its battery reaches', () => {
    const orders = told(['SITE_SETPOINT', { targetSignedKw: 20 }]);
    expect(orders).toBeDefined();
    const states = run(orders ?? NO_ORDERS, 0, 1);
    for (const state of states) expect(state.gridPowerKw).toBeCloseTo(20, 9);
  });
});

describe('what the simulated plant was told', () => {
  it('becomes the power of its battery', () => {
    expect(told(['BESS_CHARGE', toBattery(12.5)])?.batteryKw).toBe(12.5);
    expect(told(['BESS_DISCHARGE', toBattery(12.5)])?.batteryKw).toBe(-12.5);
    expect(told(['BESS_CHARGE', toBattery(12.5)], ['BESS_STOP', toBattery(0)])?.batteryKw).toBe(0);
  });

  it('is not obeyed where it knows no such action', () => {
    expect(told(['DANCE', {}])).toBeUndefined();
  });

  it('is a part of it where the plant falls short', () => {
    const short = { ...AT_NOON, share: 0.5 };
    const setpoint = { action: 'SITE_SETPOINT', payload: { targetSignedKw: -8 } };
    expect(obey(NO_ORDERS, setpoint, short)?.setpoint?.gridKw).toBe(-4);
    expect(obey(NO_ORDERS, { action: 'BESS_CHARGE', payload: toBattery(30) }, short)?.batteryKw).toBe(15);
  });

  it('is a setpoint until its validUntil, and from then on what it did without one [C-7.7]', () => {
    const validUntil = new Date(MIDNIGHT + HOUR / 2).toISOString();
    const before: [string, Record<string, unknown>] = ['BESS_DISCHARGE', toBattery(12.5)];
    const orders = told(before, ['SITE_SETPOINT', { targetSignedKw: 20, validUntil }]) ?? NO_ORDERS;
    const without = run(told(before) ?? NO_ORDERS, 0, 1);
    const states = run(orders, 0, 1);
    const valid = states.filter((state) => state.atMs < MIDNIGHT + HOUR / 2);
    expect(valid).toHaveLength(180);
    for (const state of valid) expect(state.gridPowerKw).toBeCloseTo(20, 9);
    for (const [index, state] of states.entries()) {
      if (index >= valid.length) expect(state.batteryPowerKw).toBe(without[index]?.batteryPowerKw);
    }
  });

  it('is the latest of setpoint and battery command', () => {
    const charge: [string, Record<string, unknown>] = ['BESS_CHARGE', toBattery(5)];
    const orders = told(['SITE_SETPOINT', { targetSignedKw: 20 }], charge) ?? NO_ORDERS;
    for (const state of run(orders, 0, 1)) expect(state.batteryPowerKw).toBe(5);
  });
});

describe('the simulated plant in an emergency', () => {
  it.each(['EMERGENCY_STOP', 'EMERGENCY_HOLD'])('obeys nothing but a mode after %s [C-7.7]', (action) => {
    expect(told([action, {}], ['BESS_CHARGE', toBattery(5)])).toBeUndefined();
    expect(told([action, {}], ['SITE_SETPOINT', { targetSignedKw: 5, priority: 'HIGH' }])).toBeUndefined();
    const released = told([action, {}], ['MODE_CHANGE', { mode: 'STANDARD' }], ['BESS_CHARGE', toBattery(5)]);
    expect(released).toMatchObject({ held: null, batteryKw: 5 });
  });

  it('stops all at STOP', () => {
    const stopped = told(['BESS_CHARGE', toBattery(12.5)], ['EMERGENCY_STOP', { type: 'STOP' }]);
    for (const state of run(stopped ?? NO_ORDERS, 12, 13)) {
      expect(state).toMatchObject({ batteryPowerKw: 0, pvPowerKw: 0, evPowerKw: 0 });
    }
  });

  it('freezes at HOLD what battery, PV and chargers do', () => {
    const before: [string, Record<string, unknown>][] = [
      ['BESS_CHARGE', toBattery(12.5)],
      ['SITE_SETPOINT', { targetSignedKw: 20 }],
    ];
    const held = told(...before, ['EMERGENCY_HOLD', { type: 'HOLD' }]) ?? NO_ORDERS;
    const states = run(held, 11, 14);
    expect(new Set(run(NO_ORDERS, 11, 14).map((state) => state.evPowerKw)).size).toBe(2);
    for (const state of states) {
      expect(state).toMatchObject({ batteryPowerKw: -7, pvPowerKw: 31, evPowerKw: 11 });
    }
  });

  it('cannot hold what the sun does not give', () => {
    const held = told(['EMERGENCY_HOLD', { type: 'HOLD' }]) ?? NO_ORDERS;
    const powers = run(held, 14, 24).map((state) => state.pvPowerKw);
    expect(powers[0]).toBe(31);
    expect(powers.at(-1)).toBe(0);
  });

  it.each([
    ['EMERGENCY_STOP', 0, 0],
    ['EMERGENCY_HOLD', -7, 31],
  ])('follows a setpoint of that priority after %s, and then goes back to it', (action, batteryKw, pvKw) => {
    const validUntil = new Date(MIDNIGHT + 12.5 * HOUR).toISOString();
    const setpoint = { targetSignedKw: 5, priority: 'EMERGENCY', validUntil };
    const states = run(told([action, {}], ['SITE_SETPOINT', setpoint]) ?? NO_ORDERS, 12, 13);
    for (const state of states) {
      expect(state.pvPowerKw).toBe(pvKw);
      if (state.atMs < Date.parse(validUntil)) expect(state.gridPowerKw).toBeCloseTo(5, 9);
      else expect(state.batteryPowerKw).toBe(batteryKw);
    }
  });
});
