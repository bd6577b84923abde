/** The bars of the plan's lanes and the lines of the power chart, from changes and readings. */
import { describe, expect, it } from 'vitest';
import type { PlanChange, PlanPlace } from '../../console/api/types.ts';
import { barsOf } from '../../console/charts/plan.ts';
import { powerData } from '../../console/charts/power-data.ts';

const MINUTE = 60_000;
const NOON = Date.parse('2030-03-05T12:00:00.000Z');

function at(minutes: number): string {
  return new Date(NOON + minutes * MINUTE).toISOString();
}

function place(
  level: PlanPlace['level'],
  kw: number | null,
  until: number | null = null,
  id = level,
): PlanPlace {
  return { level, commandId: id, kw, mode: null, slot: null, until: until === null ? null : at(until) };
}

function change(minutes: number, target: PlanPlace, ...waiting: PlanPlace[]): PlanChange {
  return {
    cause: 'COMMAND',
    commandId: null,
    reason: null,
    at: at(minutes),
    target,
    waiting,
    session: 'CONNECTED',
  };
}

const MODE = { ...place('MODE', null), commandId: null, mode: 'STANDARD' as const };

function shown(from: number, to: number, now: number, isCut = false) {
  return { fromMs: NOON + from * MINUTE, toMs: NOON + to * MINUTE, nowMs: NOON + now * MINUTE, isCut };
}

/** Lane, state, begin and end in minutes after noon, and whether it has ended. */
function bars(changes: PlanChange[], range: ReturnType<typeof shown>) {
  const minutes = (atMs: number) => (atMs - NOON) / MINUTE;
  return barsOf(changes, range)
    .map(({ lane, state, fromMs, toMs, isPast }) =>
      [lane, state, minutes(fromMs), minutes(toMs), ...(isPast ? ['past'] : [])].join(' '),
    )
    .sort();
}

describe('the bars of the plan', () => {
  it('show what is on top, what waits below it, and what comes back', () => {
    const normal = place('NORMAL', 20, 60);
    const changes = [
      change(0, MODE),
      change(5, normal, MODE),
      change(10, place('HIGH', 12, 15), normal, MODE),
      change(15, normal, MODE),
    ];
    expect(bars(changes, shown(0, 30, 20))).toEqual([
      'HIGH active 10 15 past',
      'MODE active 0 5 past',
      'MODE waiting 5 30',
      'NORMAL active 15 30',
      'NORMAL active 5 10 past',
      'NORMAL waiting 10 15 past',
    ]);
  });

  it('end at their own end, also if no later change is known', () => {
    expect(bars([change(0, place('HIGH', 12, 5), MODE)], shown(0, 30, 10))).toEqual([
      'HIGH active 0 5 past',
      'MODE waiting 0 30',
    ]);
    expect(bars([change(0, place('HIGH', 12, 20))], shown(0, 30, 10))).toEqual(['HIGH active 0 20']);
  });

  it('begin and end with the range', () => {
    const changes = [
      change(-60, place('NORMAL', 1)),
      change(-30, place('NORMAL', 2, null, 'NORMAL')),
      change(5, MODE),
    ];
    expect(bars(changes, shown(0, 10, 10))).toEqual(['MODE active 5 10', 'NORMAL active 0 5 past']);
  });

  it('say nothing after the last change that was read', () => {
    expect(bars([change(0, place('NORMAL', 1)), change(5, MODE)], shown(0, 60, 60, true))).toEqual([
      'NORMAL active 0 5 past',
    ]);
  });

  it('are empty without changes, and for changes of the same time', () => {
    expect(bars([], shown(0, 10, 5))).toEqual([]);
    expect(bars([change(1, place('HIGH', 1)), change(1, MODE)], shown(0, 10, 5))).toEqual([
      'MODE active 1 10',
    ]);
  });

  it('have one for each slot of a schedule', () => {
    const slot = (index: number, until: number) => ({ ...place('SLOT', index, until, 'SLOT'), slot: index });
    expect(bars([change(0, slot(0, 15)), change(15, slot(1, 30))], shown(0, 60, 20))).toEqual([
      'SLOT active 0 15 past',
      'SLOT active 15 30',
    ]);
  });
});

describe('the lines of the power chart', () => {
  const lines = (
    points: [minutes: number, value: number][],
    changes: PlanChange[],
    range = shown(0, 60, 30),
  ) => {
    const readings = points.map(([minutes, value]) => ({ timestamp: at(minutes), value }));
    const [times, measured, commanded] = powerData(readings, changes, range, 5 * MINUTE);
    return times.map((time, index) => [(time * 1_000 - NOON) / MINUTE, measured[index], commanded[index]]);
  };

  it('have a gap where readings are missing, and go on between a reading and a change', () => {
    const found = lines(
      [
        [0, 1],
        [1, 2],
        [20, 3],
      ],
      [change(10, place('HIGH', 7))],
    );
    expect(found.filter(([, measured]) => measured === null)).toHaveLength(1);
    expect(found.find(([minutes]) => minutes === 10)).toEqual([10, undefined, 7]);
  });

  it('command from the begin of the range up to now, also without any reading', () => {
    expect(lines([], [change(-10, place('HIGH', 7))])).toEqual([
      [-1 / MINUTE, undefined, null],
      [0, undefined, 7],
      [30, undefined, 7],
    ]);
  });

  it('command nothing after the last change of a range that was cut', () => {
    const found = lines([[20, 3]], [change(5, place('HIGH', 7)), change(6, MODE)], shown(0, 60, 30, true));
    expect(found.at(-1)).toEqual([20, 3, null]);
  });
});
