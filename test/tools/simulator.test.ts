/** The simulated plant: a day within its limits, and its response to commands. */
import { describe, expect, it } from 'vitest';
import { LIMITS } from '#support/simulated-plant.ts';
import { fallBack, obey, type PlantAtCommand } from '../../tools/simulator/orders.ts';
import {
  advance,
  type Fallback,
  heldPowerKw,
  initialState,
  NO_ORDERS,
  type PlantOrders,
  type PlantState,
} from '../../tools/simulator/plant.ts';

const AT_NOON: PlantAtCommand = {
  limits: LIMITS,
  state: { ...initialState(0), batteryPowerKw: -7, pvPowerKw: 31, evPowerKw: 11 },
  share: 1,
};
const MIDNIGHT = Date.UTC(2026, 5, 21);
const HOUR = 3_600_000;
const STEP_MS = 10_000;
/** The change of the state of charge in one step at full power. */
const STEP_PERCENT = ((LIMITS.batteryPowerKw * STEP_MS) / HOUR / LIMITS.batteryCapacityKwh) * 100;

/** Each step from one hour of the day to another. */
function run(orders: PlantOrders, fromHour: number, toHour: number): PlantState[] {
  const states = [initialState(MIDNIGHT + fromHour * HOUR)];
  for (let atMs = MIDNIGHT + fromHour * HOUR; atMs <= MIDNIGHT + toHour * HOUR; atMs += STEP_MS) {
    states.push(advance(states.at(-1) as PlantState, orders, LIMITS, atMs));
  }
  return states.slice(1);
}

/** The result of these commands, sent to a running plant in its state at noon. */
function applied(...actions: [string, Record<string, unknown>][]): PlantOrders | undefined {
  let orders: PlantOrders | undefined = NO_ORDERS;
  for (const [action, payload] of actions) orders = orders && obey(orders, { action, payload }, AT_NOON);
  return orders;
}

function toBattery(powerKw: number): Record<string, unknown> {
  return { targets: [{ deviceId: 'BESS-1', params: { powerKw } }] };
}

describe('the simulated plant', () => {
  it('produces nothing at night and most around noon', () => {
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
  ])('keeps battery and grid within their limits, with %s beyond them all day', (_name, batteryKw) => {
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
    const states = run(applied(['SITE_SETPOINT', { targetSignedKw: 0 }]) ?? NO_ORDERS, 0, 24);
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

  it('follows a grid target with its battery', () => {
    const states = run(applied(['SITE_SETPOINT', { targetSignedKw: 20 }]) ?? NO_ORDERS, 0, 1);
    for (const state of states) expect(state.gridPowerKw).toBeCloseTo(20, 9);
  });

  it('curtails PV to follow a target only where the battery cannot take everything', () => {
    const states = run(applied(['SITE_SETPOINT', { targetSignedKw: 20 }]) ?? NO_ORDERS, 12, 13);
    const free = run(NO_ORDERS, 12, 13);
    const reduced = states.filter((state, index) => (free[index]?.pvPowerKw ?? 0) - state.pvPowerKw > 1e-9);
    expect(reduced.length).toBeGreaterThan(0);
    expect(reduced.length).toBeLessThan(states.length);
    for (const state of states) expect(state.gridPowerKw).toBeCloseTo(20, 9);
    for (const state of reduced) {
      const isFull = state.socPercent >= LIMITS.maxSocPercent;
      expect(state.batteryPowerKw).toBe(isFull ? 0 : LIMITS.batteryPowerKw);
    }
  });

  it.each([40, -40])(
    'follows a target of %s kW only as far as its grid connection allows',
    (targetSignedKw) => {
      const orders = applied(['SITE_SETPOINT', { targetSignedKw }]) ?? NO_ORDERS;
      const narrow = { ...LIMITS, maxImportKw: 30, maxExportKw: 30 };
      const state = advance(initialState(MIDNIGHT), orders, narrow, MIDNIGHT + 12 * HOUR);
      expect(state.gridPowerKw).toBeCloseTo(30 * Math.sign(targetSignedKw), 9);
    },
  );
});

describe('a command to the simulated plant', () => {
  it('sets the power of its battery', () => {
    expect(applied(['BESS_CHARGE', toBattery(12.5)])?.batteryKw).toBe(12.5);
    expect(applied(['BESS_DISCHARGE', toBattery(12.5)])?.batteryKw).toBe(-12.5);
    expect(applied(['BESS_CHARGE', toBattery(12.5)], ['BESS_STOP', toBattery(0)])?.batteryKw).toBe(0);
  });

  it('is not obeyed with an unknown action, or without a target power', () => {
    expect(applied(['DANCE', {}])).toBeUndefined();
    expect(applied(['SITE_SETPOINT', { type: 'POWER', targetValueKw: 20 }])).toBeUndefined();
  });

  it('is obeyed in part if the plant delivers only a share of a target', () => {
    const short = { ...AT_NOON, share: 0.5 };
    const setpoint = { action: 'SITE_SETPOINT', payload: { targetSignedKw: -8 } };
    expect(obey(NO_ORDERS, setpoint, short)?.setpoint?.targetKw).toBe(-4);
    expect(obey(NO_ORDERS, { action: 'BESS_CHARGE', payload: toBattery(30) }, short)?.batteryKw).toBe(15);
  });

  it('applies as a setpoint until its validUntil, and then the previous command applies again [C-7.7]', () => {
    const validUntil = new Date(MIDNIGHT + HOUR / 2).toISOString();
    const before: [string, Record<string, unknown>] = ['BESS_DISCHARGE', toBattery(12.5)];
    const orders = applied(before, ['SITE_SETPOINT', { targetSignedKw: 20, validUntil }]) ?? NO_ORDERS;
    const without = run(applied(before) ?? NO_ORDERS, 0, 1);
    const states = run(orders, 0, 1);
    const valid = states.filter((state) => state.atMs < MIDNIGHT + HOUR / 2);
    expect(valid).toHaveLength(180);
    for (const state of valid) expect(state.gridPowerKw).toBeCloseTo(20, 9);
    for (const [index, state] of states.entries()) {
      if (index >= valid.length) expect(state.batteryPowerKw).toBe(without[index]?.batteryPowerKw);
    }
  });

  it('replaces the first setpoint completely if it is a second one [C-7.7]', () => {
    const validUntil = new Date(MIDNIGHT + HOUR / 2).toISOString();
    const before = { targetSignedKw: 20, includeConsumption: false, maxRampKwPerMinute: 1 };
    const replaced = applied(['SITE_SETPOINT', before], ['SITE_SETPOINT', { targetSignedKw: 5, validUntil }]);
    expect(replaced).toEqual(applied(['SITE_SETPOINT', { targetSignedKw: 5, validUntil }]));
    expect(replaced?.setpoint?.untilMs).toBe(MIDNIGHT + HOUR / 2);
  });

  it('sets with an energy quantum its mean power [C-7.8]', () => {
    const quantum = { type: 'ENERGY', targetValueKwh: 5, intervalMinutes: 15, targetSignedKw: 20 };
    const states = run(applied(['SITE_SETPOINT', quantum]) ?? NO_ORDERS, 1, 1.25);
    const [first, last] = [states[0], states.at(-1)] as [PlantState, PlantState];
    expect(last.importRegisterKwh - first.importRegisterKwh).toBeCloseTo(5, 6);
  });

  it('sets the total power of battery, PV and chargers if it excludes consumption [C-7.8]', () => {
    const payload = { targetSignedKw: -15, includeConsumption: false };
    const states = run(applied(['SITE_SETPOINT', payload]) ?? NO_ORDERS, 8, 11);
    for (const { batteryPowerKw, evPowerKw, pvPowerKw } of states) {
      expect(batteryPowerKw + evPowerKw - pvPowerKw).toBeCloseTo(-15, 9);
    }
    expect(new Set(states.map(({ evPowerKw }) => evPowerKw)).size).toBe(2);
    expect(new Set(states.map(({ gridPowerKw }) => gridPowerKw.toFixed(1))).size).toBeGreaterThan(10);
  });

  it.each(['STANDARD', 'MAX_EXPORT'])('ends the setpoint if it changes the mode (%s) [C-7.7]', (mode) => {
    const charge: [string, Record<string, unknown>] = ['BESS_CHARGE', toBattery(5)];
    const validUntil = new Date(MIDNIGHT + HOUR).toISOString();
    for (const payload of [{ targetSignedKw: 20 }, { targetSignedKw: 20, validUntil }]) {
      const orders = applied(charge, ['SITE_SETPOINT', payload], ['MODE_CHANGE', { mode }]) ?? NO_ORDERS;
      for (const state of run(orders, 0, 1)) expect(state.batteryPowerKw).toBe(5);
    }
  });

  it('applies as a setpoint after a mode change', () => {
    const setpoint: [string, Record<string, unknown>] = ['SITE_SETPOINT', { targetSignedKw: 20 }];
    expect(applied(['MODE_CHANGE', { mode: 'STANDARD' }], setpoint)).toEqual(applied(setpoint));
  });

  it('to the battery replaces an earlier setpoint', () => {
    const charge: [string, Record<string, unknown>] = ['BESS_CHARGE', toBattery(5)];
    const orders = applied(['SITE_SETPOINT', { targetSignedKw: 20 }], charge) ?? NO_ORDERS;
    for (const state of run(orders, 0, 1)) expect(state.batteryPowerKw).toBe(5);
  });
});

describe('a setpoint with a ramp', () => {
  const RAMP = { maxRampKwPerMinute: 6 };
  const STEP_KW = (RAMP.maxRampKwPerMinute * STEP_MS) / 60_000;

  /** The powers of the setpoint, from the plant's current power, in steps of twelve minutes. */
  function ramped(payload: { targetSignedKw: number; includeConsumption: boolean }): number[] {
    const state = run(NO_ORDERS, 1, 1).at(-1) as PlantState;
    const command = { action: 'SITE_SETPOINT', payload: { ...payload, ...RAMP } };
    const orders = obey(NO_ORDERS, command, { limits: LIMITS, state, share: 1 }) ?? NO_ORDERS;
    const states = [state, ...run(orders, 1, 1.2)];
    return states.map((one) => heldPowerKw(one, payload.includeConsumption));
  }

  it.each([
    ['up', true, 30],
    ['down', true, -30],
    ['up', false, 30],
    ['down', false, -30],
  ])(
    'moves the power %s at that rate to the target and keeps it [C-2.3] (includeConsumption: %s)',
    (_name, includeConsumption, targetSignedKw) => {
      const [start = 0, ...powers] = ramped({ targetSignedKw, includeConsumption });
      const direction = Math.sign(targetSignedKw - start);
      const steps = Math.ceil(Math.abs(targetSignedKw - start) / STEP_KW);
      expect(steps).toBeGreaterThan(10);
      for (const [index, powerKw] of powers.entries()) {
        const expectedKw = index < steps ? start + direction * index * STEP_KW : targetSignedKw;
        expect(powerKw).toBeCloseTo(expectedKw, 9);
      }
      expect(powers.length).toBeGreaterThan(steps);
    },
  );

  it('continues from the power that an earlier one had reached', () => {
    const first = { action: 'SITE_SETPOINT', payload: { targetSignedKw: 30, ...RAMP } };
    const second = { action: 'SITE_SETPOINT', payload: { targetSignedKw: -30, ...RAMP } };
    const begin = run(NO_ORDERS, 1, 1).at(-1) as PlantState;
    const up = obey(NO_ORDERS, first, { limits: LIMITS, state: begin, share: 1 }) ?? NO_ORDERS;
    const turned = advance(begin, up, LIMITS, begin.atMs + 60_000);
    const down = obey(up, second, { limits: LIMITS, state: turned, share: 1 }) ?? NO_ORDERS;
    const later = advance(turned, down, LIMITS, turned.atMs + 30_000);
    expect(turned.gridPowerKw).toBeCloseTo(begin.gridPowerKw + 6, 9);
    expect(later.gridPowerKw).toBeCloseTo(begin.gridPowerKw + 3, 9);
  });

  it('takes effect in its first step if it has no rate', () => {
    const [first] = run(applied(['SITE_SETPOINT', { targetSignedKw: 30 }]) ?? NO_ORDERS, 1, 1);
    expect(first?.gridPowerKw).toBeCloseTo(30, 9);
  });
});

describe('the simulated plant in an emergency', () => {
  it.each(['EMERGENCY_STOP', 'EMERGENCY_HOLD'])('obeys only a mode after %s [C-7.7]', (action) => {
    expect(applied([action, {}], ['BESS_CHARGE', toBattery(5)])).toBeUndefined();
    expect(applied([action, {}], ['SITE_SETPOINT', { targetSignedKw: 5, priority: 'HIGH' }])).toBeUndefined();
    const released = applied(
      [action, {}],
      ['MODE_CHANGE', { mode: 'STANDARD' }],
      ['BESS_CHARGE', toBattery(5)],
    );
    expect(released).toMatchObject({ held: null, batteryKw: 5 });
  });

  it('ends the emergency with a mode, which also ends a setpoint of EMERGENCY priority [C-7.7]', () => {
    const setpoint = { targetSignedKw: 5, priority: 'EMERGENCY' };
    const mode = { mode: 'STANDARD' };
    const orders = applied(['EMERGENCY_STOP', {}], ['SITE_SETPOINT', setpoint], ['MODE_CHANGE', mode]);
    expect(orders).toEqual(NO_ORDERS);
  });

  it('stops everything at STOP', () => {
    const stopped = applied(['BESS_CHARGE', toBattery(12.5)], ['EMERGENCY_STOP', { type: 'STOP' }]);
    for (const state of run(stopped ?? NO_ORDERS, 12, 13)) {
      expect(state).toMatchObject({ batteryPowerKw: 0, pvPowerKw: 0, evPowerKw: 0 });
    }
  });

  it('freezes battery, PV and chargers at HOLD', () => {
    const before: [string, Record<string, unknown>][] = [
      ['BESS_CHARGE', toBattery(12.5)],
      ['SITE_SETPOINT', { targetSignedKw: 20 }],
    ];
    const held = applied(...before, ['EMERGENCY_HOLD', { type: 'HOLD' }]) ?? NO_ORDERS;
    const states = run(held, 11, 14);
    expect(new Set(run(NO_ORDERS, 11, 14).map((state) => state.evPowerKw)).size).toBe(2);
    for (const state of states) {
      expect(state).toMatchObject({ batteryPowerKw: -7, pvPowerKw: 31, evPowerKw: 11 });
    }
  });

  it.each([
    ['BESS_STOP', {}, { batteryKw: 0, pvKw: 31 }],
    ['BESS_CHARGE', toBattery(0), { batteryKw: 0, pvKw: 31 }],
    ['FVE_STOP', {}, { batteryKw: -7, pvKw: 0 }],
    ['FVE_REDUCE_PERCENT', { targets: [{ deviceId: 'FVE-1', params: { percent: 100 } }] }, { pvKw: 0 }],
  ])('stops an asset for %s during a HOLD [C-7.7]', (action, payload, held) => {
    const before: [string, Record<string, unknown>][] = [
      ['BESS_CHARGE', toBattery(12.5)],
      ['SITE_SETPOINT', { targetSignedKw: 20 }],
      ['EMERGENCY_HOLD', { type: 'HOLD' }],
    ];
    expect(applied(...before, [action, payload])).toMatchObject({ held });
  });

  it('cannot hold PV power that the sun does not provide', () => {
    const held = applied(['EMERGENCY_HOLD', { type: 'HOLD' }]) ?? NO_ORDERS;
    const powers = run(held, 14, 24).map((state) => state.pvPowerKw);
    expect(powers[0]).toBe(31);
    expect(powers.at(-1)).toBe(0);
  });

  it.each([
    ['EMERGENCY_STOP', 0, 0],
    ['EMERGENCY_HOLD', -7, 31],
  ])(
    'follows a setpoint of EMERGENCY priority after %s, and then returns to the emergency',
    (action, batteryKw, pvKw) => {
      const validUntil = new Date(MIDNIGHT + 12.5 * HOUR).toISOString();
      const setpoint = { targetSignedKw: 5, priority: 'EMERGENCY', validUntil };
      const states = run(applied([action, {}], ['SITE_SETPOINT', setpoint]) ?? NO_ORDERS, 12, 13);
      for (const state of states) {
        expect(state.pvPowerKw).toBe(pvKw);
        if (state.atMs < Date.parse(validUntil)) expect(state.gridPowerKw).toBeCloseTo(5, 9);
        else expect(state.batteryPowerKw).toBe(batteryKw);
      }
    },
  );
});

describe('the fallback of the simulated plant', () => {
  const fallback: Fallback = { mode: 'ZERO_EXPORT', afterSeconds: 60, action: 'HOLD', setpointKw: null };
  const doing = applied(['SITE_SETPOINT', { targetSignedKw: 9 }], ['CONFIG_SET', { fallback }]);
  const engaged = (changes: Partial<Fallback>) =>
    fallBack({ ...(doing ?? NO_ORDERS), fallback: { ...fallback, ...changes } }, AT_NOON.state);

  it('is the one of the last CONFIG_SET, and an unreadable CONFIG_SET fails', () => {
    expect(doing).toMatchObject({ fallback, setpoint: { targetKw: 9 } });
    expect(applied(['CONFIG_SET', { fallback }], ['CONFIG_SET', { fallback: null }])?.fallback).toBeNull();
    expect(applied(['CONFIG_SET', { fallback: { action: 'DANCE' } }])).toBeUndefined();
  });

  it('continues through an emergency, in which a CONFIG_SET is accepted', () => {
    expect(applied(['CONFIG_SET', { fallback }], ['EMERGENCY_STOP', {}])?.fallback).toEqual(fallback);
    expect(applied(['EMERGENCY_HOLD', {}], ['CONFIG_SET', { fallback }])).toMatchObject({
      fallback,
      held: {},
    });
  });

  it.each<[string, Partial<Fallback>, Partial<PlantOrders>]>([
    ['holds the current power', {}, { setpoint: null, held: { batteryKw: -7, pvKw: 31, evKw: 11 } }],
    ['stops', { action: 'STOP' }, { setpoint: null, held: { batteryKw: 0, pvKw: 0, evKw: 0 } }],
    ['follows the mode of the plant', { action: 'MODE' }, { setpoint: null, held: null }],
  ])('%s [C-2.3]', (_what, changes, orders) => {
    expect(engaged(changes)).toMatchObject(orders);
  });

  it('holds the power of its setpointKw [C-2.3]', () => {
    expect(engaged({ setpointKw: -3 })).toMatchObject({ setpoint: { targetKw: -3 }, held: null });
  });

  it('does nothing if none was configured, and does not end an emergency', () => {
    expect(fallBack(NO_ORDERS, AT_NOON.state)).toBe(NO_ORDERS);
    const stopped = applied(
      ['CONFIG_SET', { fallback: { ...fallback, action: 'MODE' } }],
      ['EMERGENCY_STOP', {}],
    );
    expect(fallBack(stopped ?? NO_ORDERS, AT_NOON.state)).toBe(stopped);
  });
});
