/** The simulated plant: a day of it within its limits, and what it makes of the commands that it is told. */
import { describe, expect, it } from 'vitest';
import { obey } from '../../tools/simulator/orders.ts';
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

function told(...actions: [string, Record<string, unknown>][]): PlantOrders | undefined {
  let orders: PlantOrders | undefined = NO_ORDERS;
  for (const [action, payload] of actions) orders = orders && obey(orders, { action, payload }, LIMITS);
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
    const states = run({ ...NO_ORDERS, gridTargetKw: 0 }, 0, 24);
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

  it('stops all in an emergency, and nothing but a mode sets it going again [C-7.7]', () => {
    const stopped = told(['BESS_CHARGE', toBattery(12.5)], ['EMERGENCY_STOP', { type: 'STOP' }]);
    expect(stopped).toMatchObject({ stopped: true });
    for (const state of run(stopped ?? NO_ORDERS, 12, 13)) {
      expect(state.batteryPowerKw).toBe(0);
      expect(state.pvPowerKw).toBe(0);
    }
    expect(told(['EMERGENCY_STOP', {}], ['BESS_CHARGE', toBattery(5)])).toBeUndefined();
    expect(told(['EMERGENCY_STOP', {}], ['SITE_SETPOINT', { targetSignedKw: 5 }])).toBeUndefined();
    const released = told(
      ['EMERGENCY_STOP', {}],
      ['MODE_CHANGE', { mode: 'STANDARD' }],
      ['BESS_CHARGE', toBattery(5)],
    );
    expect(released).toMatchObject({ stopped: false, batteryKw: 5 });
  });
});
