/**
 * The verdict on a setpoint: its time, the measurements that count, and the tolerance. The expected numbers
 * are computed by hand.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import { EXPORT, energy, power } from '#workerd/site-view.ts';
import type { Span } from '../../../../durable-objects/site/plan/state.ts';
import {
  judge,
  type Measured,
  type Point,
  settlingTimeMs,
  verdictAtMs,
} from '../../../../durable-objects/site/plan/verdict.ts';
import type { SiteSetpoint } from '../../../../protocol/command.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Times in minutes, each with its value. */
function points(...some: [minute: number, value: number | null][]): Point[] {
  return some.map(([minute, value]) => ({ atMs: minute * MINUTE, value }));
}

/** Spans in minutes. */
function spans(...some: [from: number, to: number][]): Span[] {
  return some.map(([from, to]) => [from * MINUTE, to * MINUTE] as const);
}

function measured(powerKw: Point[], registerKwh: Point[] = []): Measured {
  return { powerKw, registerKwh };
}

/** Judges a POWER setpoint, by default without settling time. */
function judgePower(setpoint: SiteSetpoint, on: Span[], powerKw: Point[], settlingMs = 0) {
  return judge(setpoint, on, settlingMs, measured(powerKw));
}

describe('the time of a verdict', () => {
  const open = { startsAtMs: 0, endsAtMs: null };
  const ends = { startsAtMs: 0, endsAtMs: 20 * MINUTE };

  it('the verdict on POWER is due at validUntil, or five minutes after EXECUTING if open-ended [C-7.8]', () => {
    expect(verdictAtMs(power(5), ends, 2 * MINUTE)).toBe(20 * MINUTE);
    expect(verdictAtMs(power(5), ends, 19 * MINUTE)).toBe(20 * MINUTE);
    expect(verdictAtMs(power(5), open, 2 * MINUTE)).toBe(7 * MINUTE);
    expect(verdictAtMs(power(5), open, 0)).toBe(5 * MINUTE);
  });

  it('the verdict on ENERGY is due one interval after the later of EXECUTING and validFrom [C-7.8]', () => {
    expect(verdictAtMs(energy(5, 15), open, 2 * MINUTE)).toBe(17 * MINUTE);
    const ahead = { startsAtMs: 10 * MINUTE, endsAtMs: null };
    expect(verdictAtMs(energy(5, 15), ahead, 2 * MINUTE)).toBe(25 * MINUTE);
    expect(verdictAtMs(energy(5, 15), ahead, 12 * MINUTE)).toBe(27 * MINUTE);
  });

  it('the verdict on ENERGY is due at validUntil if that is earlier [C-7.8]', () => {
    expect(verdictAtMs(energy(5, 15), ends, 2 * MINUTE)).toBe(17 * MINUTE);
    expect(verdictAtMs(energy(5, 15), ends, 8 * MINUTE)).toBe(20 * MINUTE);
    expect(verdictAtMs(energy(5, 60), ends, 0)).toBe(20 * MINUTE);
  });
});

describe('the settling time', () => {
  it('is a quarter of the window, and at most a minute [C-7.8]', () => {
    expect(settlingTimeMs(HOUR)).toBe(MINUTE);
    expect(settlingTimeMs(4 * MINUTE)).toBe(MINUTE);
    expect(settlingTimeMs(2 * MINUTE)).toBe(30 * SECOND);
    expect(settlingTimeMs(0)).toBe(0);
  });

  it('does not count, and starts again with each activation [C-7.8]', () => {
    const on = spans([0, 5], [10, 15]);
    const arriving = points([0, 50], [1, 10], [5, 99], [10, 50], [11, 10]);
    expect(judgePower(power(10), on, arriving, MINUTE)).toEqual({
      status: 'COMPLETED',
      reason: null,
      actualValueKw: 10,
      targetValueKw: 10,
      deviationKw: 0,
    });
    // Without the settling time: (50 · 1 + 10 · 4) · 2 / 10 = 18 kW.
    expect(judgePower(power(10), on, arriving)).toMatchObject({ status: 'DEVIATED', actualValueKw: 18 });
  });

  it('an activation no longer than the settling time does not count [C-7.8]', () => {
    const on = spans([0, 1], [10, 12]);
    expect(judgePower(power(10), on, points([0, 99], [10, 10]), MINUTE)).toMatchObject({ actualValueKw: 10 });
    expect(judgePower(power(10), spans([0, 1]), points([0, 99]), MINUTE)).toEqual({
      status: 'COMPLETED',
      reason: 'unmeasured',
      targetValueKw: 10,
    });
  });
});

describe('the mean power of a setpoint', () => {
  it('the power is the time-weighted mean, where a sample is valid until the next one [C-7.8]', () => {
    // 4 kW for 1 minute, 10 kW for 3, 1 kW for 6: (4 + 30 + 6) / 10 = 4 kW.
    const varied = points([0, 4], [1, 10], [4, 1]);
    expect(judgePower(power(4), spans([0, 10]), varied)).toMatchObject({
      status: 'COMPLETED',
      actualValueKw: 4,
      deviationKw: 0,
    });
  });

  it('the mean begins with the last sample before the activation, and ends with the activation [C-7.8]', () => {
    // 2 kW is valid until minute 12, then 6 kW until 20: (2 · 2 + 6 · 8) / 10 = 5.2 kW.
    const around = points([3, 99], [4, 2], [12, 6], [20, 77], [21, 88]);
    expect(judgePower(power(5.2), spans([10, 20]), around)).toMatchObject({ actualValueKw: 5.2 });
  });

  it('the mean leaves out unknown times: before the first sample, and where a part of the sum is missing [C-7.8]', () => {
    // Known only for minutes 2 to 4 and 8 to 10: (6 · 2 + 2 · 2) / 4 = 4 kW.
    const gaps = points([2, 6], [4, null], [8, 2]);
    expect(judgePower(power(4), spans([0, 10]), gaps)).toMatchObject({ actualValueKw: 4 });
    const unknown = judgePower(power(4), spans([0, 10]), points([0, null]));
    expect(unknown).toEqual({ status: 'COMPLETED', reason: 'unmeasured', targetValueKw: 4 });
  });

  it('the power while another target is active does not count [C-7.8]', () => {
    // 3 kW for 2 minutes, then 9 kW for 1: (6 + 9) / 3 = 5 kW; the 50 kW between belong to another target.
    const between = points([0, 3], [2, 50], [8, 9]);
    expect(judgePower(power(5), spans([0, 2], [8, 9]), between)).toMatchObject({ actualValueKw: 5 });
  });

  it('an unmeasured setpoint is COMPLETED with the reason unmeasured and only its target as a number [C-7.8]', () => {
    const nothing = { status: 'COMPLETED', reason: 'unmeasured', targetValueKw: -7 };
    expect(judgePower(power(7, EXPORT), spans([0, 10]), [])).toEqual(nothing);
    expect(judgePower(power(7, EXPORT), spans([0, 10]), points([10, 5]))).toEqual(nothing);
    expect(judgePower(power(7, EXPORT), [], points([0, 5]))).toEqual(nothing);
  });

  it('the mean of a constant power is that constant, however it is sampled and cut [C-7.8]', () => {
    const minutes = fc.uniqueArray(fc.integer({ min: 0, max: 100 }), { minLength: 2, maxLength: 12 });
    const constant = fc.integer({ min: -100_000, max: 100_000 }).map((watts) => watts / 1_000);
    forAll(minutes, minutes, constant, (cuts, samples, kw) => {
      const bounds = cuts.sort((left, right) => left - right);
      const on = spans(
        ...bounds.flatMap((from, index): [number, number][] => {
          const to = bounds[index + 1];
          return index % 2 === 0 && to !== undefined ? [[from, to]] : [];
        }),
      );
      const every = samples.sort((left, right) => left - right).map((minute) => [minute, kw] as const);
      const verdict = judgePower(
        power(0),
        on,
        points([-1, kw], ...every.map(([at, value]): [number, number] => [at, value])),
      );
      expect(verdict.actualValueKw).toBeCloseTo(kw, 3);
    });
  });
});

describe('the verdict on POWER', () => {
  const at = (targetKw: number, kw: number, changes: Partial<SiteSetpoint> = {}) =>
    judgePower(power(targetKw, changes), spans([0, 10]), points([0, kw]));

  it.each([
    [100, 105, 'COMPLETED'],
    [100, 105.001, 'DEVIATED'],
    [100, 95, 'COMPLETED'],
    [100, 94.999, 'DEVIATED'],
    [4, 4.5, 'COMPLETED'],
    [4, 4.501, 'DEVIATED'],
    [4, 3.5, 'COMPLETED'],
    [4, 3.499, 'DEVIATED'],
    [0, 0.5, 'COMPLETED'],
    [0, -0.501, 'DEVIATED'],
  ] as const)(
    'a target of %d kW, measured %d, is %s: DEVIATED if off by more than 5 % and 0.5 kW [C-7.8]',
    (target, kw, status) => {
      expect(at(target, kw).status).toBe(status);
    },
  );

  it('the target and the measurement of an export are negative [C-7.8]', () => {
    expect(at(40, -42, EXPORT)).toEqual({
      status: 'COMPLETED',
      reason: null,
      targetValueKw: -40,
      actualValueKw: -42,
      deviationKw: -2,
    });
    expect(at(40, 40, EXPORT)).toMatchObject({ status: 'DEVIATED', deviationKw: 80 });
    expect(at(40, -37.9, EXPORT)).toMatchObject({ status: 'DEVIATED', deviationKw: 2.1 });
  });

  it('the verdict is rounded to watts, and zero has no sign [C-7.8]', () => {
    // 10 kW for 1 minute and 0 for 2: 3.3333… kW.
    const third = judgePower(power(3.3333), spans([0, 3]), points([0, 10], [1, 0]));
    expect(third).toMatchObject({ actualValueKw: 3.333, targetValueKw: 3.333, deviationKw: 0 });
    const nothing = at(0, -0.0001, EXPORT);
    expect(Object.is(nothing.actualValueKw, 0)).toBe(true);
    expect(Object.is(nothing.deviationKw, 0)).toBe(true);
    expect(Object.is(nothing.targetValueKw, 0)).toBe(true);
  });
});

describe('the verdict on ENERGY', () => {
  it('the energy is the difference of the registers, whatever the power is [C-7.8]', () => {
    const registers = points([0, 1_000], [15, 1_005]);
    const verdict = judge(energy(5, 15), spans([0, 15]), MINUTE, measured(points([0, 99]), registers));
    expect(verdict).toEqual({
      status: 'COMPLETED',
      reason: null,
      targetValueKwh: 5,
      actualValueKwh: 5,
      deviationKwh: 0,
      targetValueKw: 20,
      actualValueKw: 20,
      deviationKw: 0,
    });
  });

  it('the energy includes the settling time [C-7.8]', () => {
    const { actualValueKwh } = judge(energy(5, 15), spans([0, 15]), MINUTE, measured(points([0, 20])));
    expect(actualValueKwh).toBe(5);
  });

  it('the energy sums the registers of each activation, without the time between [C-7.8]', () => {
    // 2 kWh and 1 kWh while active; the 40 kWh between belong to another target.
    const registers = points([0, 100], [5, 102], [20, 142], [25, 143], [30, 150]);
    const verdict = judge(energy(3, 30), spans([0, 5], [20, 25]), 0, measured([], registers));
    expect(verdict).toMatchObject({ status: 'COMPLETED', actualValueKwh: 3, targetValueKwh: 3 });
  });

  it('the register value for each end of a span is the last one before it [C-7.8]', () => {
    const registers = points([1, 10], [4, 12], [16, 15], [21, 99]);
    const verdict = judge(energy(3, 15), spans([5, 20]), 0, measured([], registers));
    expect(verdict).toMatchObject({ actualValueKwh: 3 });
  });

  it('the energy is the integral of the power if registers are missing for any activation [C-7.8]', () => {
    // 12 kW for 5 minutes and 24 kW for 10: 1 + 4 kWh.
    const powerKw = points([0, 12], [5, 24]);
    const on = spans([0, 15]);
    const expected = { status: 'COMPLETED', actualValueKwh: 5, actualValueKw: 20 };
    for (const registers of [[], points([0, 100]), points([20, 100]), points([0, 100], [15, null])]) {
      expect(judge(energy(5, 15), on, 0, measured(powerKw, registers))).toMatchObject(expected);
    }
    const ofFirst = points([0, 100], [5, 900]);
    const two = judge(energy(5, 15), spans([0, 5], [5, 15]), 0, measured(powerKw, ofFirst));
    expect(two).toMatchObject(expected);
  });

  it('the energy of a part of the interval is compared with the whole target [C-7.8]', () => {
    // 20 kW for 6 of 15 minutes: 2 of 5 kWh, and as the mean of the interval 8 of 20 kW.
    const verdict = judge(energy(5, 15), spans([0, 6]), 0, measured(points([0, 20])));
    expect(verdict).toEqual({
      status: 'DEVIATED',
      reason: null,
      targetValueKwh: 5,
      actualValueKwh: 2,
      deviationKwh: -3,
      targetValueKw: 20,
      actualValueKw: 8,
      deviationKw: -12,
    });
  });

  it('the energy of an export is negative in kWh and kW [C-7.8]', () => {
    const registers = points([0, 500], [30, 490]);
    const verdict = judge(energy(10, 30, EXPORT), spans([0, 30]), 0, measured([], registers));
    expect(verdict).toMatchObject({ targetValueKwh: -10, actualValueKwh: -10, targetValueKw: -20 });
    expect(verdict).toMatchObject({ status: 'COMPLETED', actualValueKw: -20, deviationKwh: 0 });
  });

  it.each([
    [100, 105, 'COMPLETED'],
    [100, 105.001, 'DEVIATED'],
    [100, 94.999, 'DEVIATED'],
    [1, 1.1, 'COMPLETED'],
    [1, 1.101, 'DEVIATED'],
    [1, 0.899, 'DEVIATED'],
    [0, -0.1, 'COMPLETED'],
    [0, -0.101, 'DEVIATED'],
  ] as const)(
    'a target of %d kWh, counted %d, is %s: DEVIATED if off by more than 5 % and 0.1 kWh [C-7.8]',
    (target, kwh, status) => {
      const registers = points([0, 0], [15, kwh]);
      expect(judge(energy(target, 15), spans([0, 15]), 0, measured([], registers)).status).toBe(status);
    },
  );

  it('an ENERGY setpoint that was not measured or never active is COMPLETED, unmeasured [C-7.8]', () => {
    const nothing = { status: 'COMPLETED', reason: 'unmeasured', targetValueKw: 20, targetValueKwh: 5 };
    expect(judge(energy(5, 15), spans([0, 15]), 0, measured([]))).toEqual(nothing);
    expect(judge(energy(5, 15), [], 0, measured(points([0, 9]), points([0, 1], [15, 2])))).toEqual(nothing);
  });
});
