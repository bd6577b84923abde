/**
 * The simulated plant without contact: it follows its schedules, and its fallback where they have no slot.
 */
import { describe, expect, it } from 'vitest';
import { LIMITS } from '#support/simulated-plant.ts';
import { type Alone, alone, obey } from '../../tools/simulator/orders.ts';
import { initialState, NO_ORDERS, type PlantOrders } from '../../tools/simulator/plant.ts';

const START = Date.UTC(2026, 5, 21, 12);
const MINUTE = 60_000;
const AT_START = { limits: LIMITS, state: initialState(START), share: 1 };

function applied(...actions: [string, Record<string, unknown>][]): PlantOrders {
  return actions.reduce<PlantOrders>((orders, [action, payload]) => {
    const next = obey(orders, { action, payload }, AT_START);
    if (!next) throw new Error(`${action} was not obeyed`);
    return next;
  }, NO_ORDERS);
}

const scheduled = (
  scheduleId: string,
  sequence: number,
  powersKw: (number | null)[],
  inMinutes = 0,
): [string, Record<string, unknown>] => [
  'SCHEDULE_SET',
  {
    scheduleId,
    sequence,
    startTime: new Date(START + inMinutes * MINUTE).toISOString(),
    endTime: 'as said by its slots',
    slotDurationMinutes: 1,
    slots: powersKw.map((value, slotIndex) => ({
      slotIndex,
      mode: 'STANDARD',
      setpoint: value === null ? null : { value },
    })),
  },
];

const FALLBACK = { mode: 'STANDARD', afterSeconds: 60, action: 'STOP', setpointKw: null };

const at = (orders: PlantOrders, minutes: number, silentMs = 0, before?: Alone): Alone =>
  alone(before, orders, { ...initialState(START), atMs: START + minutes * MINUTE }, silentMs);

/** The power in each of those minutes; null: a mode, undefined: as commanded. */
const powers = (orders: PlantOrders, ...minutes: number[]) =>
  minutes.map((minute) => {
    const doing = at(orders, minute);
    return doing && (doing.orders.setpoint?.targetKw ?? null);
  });

describe('a plant that is out of contact', () => {
  it('follows its schedule slot by slot, and afterwards its last command [C-7.9]', () => {
    const orders = applied(scheduled('a', 1, [5, -3, null]), [
      'BESS_CHARGE',
      { targets: [{ deviceId: 'B' }] },
    ]);
    expect(powers(orders, -1, 0, 0.99, 1, 2, 3)).toEqual([undefined, 5, 5, -3, null, undefined]);
    expect(at(orders, 0)?.orders.setpoint?.untilMs).toBe(START + MINUTE);
  });

  it('follows, of two schedules, the one with the higher sequence, whichever it received first [C-7.9]', () => {
    const [older, newer] = [scheduled('a', 1, [1, 2, 3]), scheduled('b', 2, [12], 1)];
    for (const orders of [applied(older, newer), applied(newer, older)])
      expect(powers(orders, 0, 1, 2)).toEqual([1, 12, 3]);
  });

  it('deletes a cancelled schedule, and accepts a cancel of an unknown one [C-7.9]', () => {
    const cancel = (scheduleId: string): [string, Record<string, unknown>] => [
      'SCHEDULE_CANCEL',
      { scheduleId },
    ];
    const both = [scheduled('a', 1, [1]), scheduled('b', 2, [2])] as const;
    expect(powers(applied(...both, cancel('b')), 0)).toEqual([1]);
    expect(powers(applied(...both, cancel('c')), 0)).toEqual([2]);
  });

  it('keeps its schedules through an emergency, and follows none while it is active [C-7.7]', () => {
    const stopped = applied(scheduled('a', 1, [5, 6]), ['EMERGENCY_STOP', { type: 'STOP' }]);
    expect(powers(stopped, 0)).toEqual([undefined]);
    const later = obey(stopped, { action: 'MODE_CHANGE', payload: { mode: 'STANDARD' } }, AT_START);
    expect(powers(later ?? NO_ORDERS, 1)).toEqual([6]);
  });

  it('continues a HIGH setpoint to its end, and replaces a NORMAL one with the slot [C-7.7]', () => {
    const validUntil = new Date(START + MINUTE).toISOString();
    const setpoint = (priority: string): [string, Record<string, unknown>] => [
      'SITE_SETPOINT',
      { targetSignedKw: 9, priority, validUntil },
    ];
    const plan = scheduled('a', 1, [5, 6]);
    expect(powers(applied(plan, setpoint('HIGH')), 0, 1)).toEqual([undefined, 6]);
    expect(powers(applied(plan, setpoint('NORMAL')), 0, 1)).toEqual([5, 6]);
  });

  it('engages its fallback only where no slot is due, and ends it when one is [C-2.3]', () => {
    const orders = applied(['CONFIG_SET', { fallback: FALLBACK }], scheduled('a', 1, [5], 2));
    expect(at(orders, 0, 59_999)).toBeUndefined();
    const engaged = at(orders, 1, 60_000);
    expect(engaged).toMatchObject({ isFallback: true, orders: { held: { batteryKw: 0 } } });
    // An engaged fallback continues: it does not engage again at each check.
    expect(at(orders, 1.5, 90_000, engaged)).toBe(engaged);
    expect(at(orders, 2, 120_000, engaged)).toMatchObject({ isFallback: false });
    expect(at(orders, 3, 180_000)).toMatchObject({ isFallback: true });
  });

  it('does not obey a SCHEDULE_SET without slots', () => {
    const nothing = { action: 'SCHEDULE_SET', payload: { scheduleId: 'a' } };
    expect(obey(NO_ORDERS, nothing, AT_START)).toBeUndefined();
  });

  it('keeps no schedule that has ended [rule 9]', () => {
    const state = { ...initialState(START), atMs: START + 10 * MINUTE };
    const [action, payload] = scheduled('b', 2, [1], 10);
    const next = obey(applied(scheduled('a', 1, [1])), { action, payload }, { ...AT_START, state });
    expect(next?.schedules.map(({ scheduleId }) => scheduleId)).toEqual(['b']);
  });
});
