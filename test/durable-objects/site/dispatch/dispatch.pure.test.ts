/** The rules of a dispatch: its states, its windows, its next due time, and how its command ends. */
import { describe, expect, it } from 'vitest';
import { dispatchRow } from '#workerd/site-view.ts';
import {
  ackDue,
  advance,
  type DispatchWindow,
  hasEnded,
  isExpired,
  isHeld,
  outcomeOf as outcomeOfRows,
  siteNames,
  targetsOf,
  type Window,
  waitingDue,
  wasSent,
  windowOf,
} from '../../../../durable-objects/site/dispatch/dispatch.ts';
import type { DispatchRow, DispatchState } from '../../../../durable-objects/site/dispatch/rows.ts';
import { DEVICE_ACK_STATUSES, type DeviceAckStatus } from '../../../../protocol/enums.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');

/** The outcome, with the failed targets named as the owners of these commands name them. */
function outcomeOf(rows: readonly DispatchRow[]) {
  return outcomeOfRows(rows, (row) => {
    if (row.action === 'MODE_CHANGE') return siteNames(row);
    const targets = targetsOf(row);
    return targets.length > 0 ? targets : [row.device_id];
  });
}

describe('an ack', () => {
  /** The acks that advance each state. All others name the same state or an earlier one. */
  const onward: Record<DispatchState, DeviceAckStatus[]> = {
    WAITING: ['RECEIVED', 'IN_PROGRESS', 'COMPLETED', 'FAILED'],
    SENT: ['RECEIVED', 'IN_PROGRESS', 'COMPLETED', 'FAILED'],
    RECEIVED: ['IN_PROGRESS', 'COMPLETED', 'FAILED'],
    IN_PROGRESS: ['COMPLETED', 'FAILED'],
    COMPLETED: [],
    FAILED: [],
  };
  const states = Object.keys(onward) as DispatchState[];

  it.each(states)(
    'advances a dispatch in the state %s only to a later state, and is otherwise ignored [C-3.9]',
    (state) => {
      for (const ack of DEVICE_ACK_STATUSES) {
        expect([ack, advance(state, ack)]).toEqual([ack, onward[state].includes(ack) ? ack : undefined]);
      }
    },
  );

  it('no sequence of acks moves a state back [C-3.9]', () => {
    for (const first of DEVICE_ACK_STATUSES) {
      for (const second of DEVICE_ACK_STATUSES) {
        const after = advance('SENT', first) ?? 'SENT';
        const then = advance(after, second) ?? after;
        expect(hasEnded(after) && then !== after).toBe(false);
        expect(onward[then].length).toBeLessThanOrEqual(onward[after].length);
      }
    }
  });

  it('RECEIVED and IN_PROGRESS mean that the device has the command, COMPLETED and FAILED that it ended [C-7.8]', () => {
    expect(states.filter(isHeld)).toEqual(['RECEIVED', 'IN_PROGRESS']);
    expect(states.filter(hasEnded)).toEqual(['COMPLETED', 'FAILED']);
  });
});

describe('the window of a command', () => {
  const MINUTES_15 = 15 * 60_000;
  const [BEFORE, SOON, LATE] = [NOW_MS - 5, NOW_MS + 9, NOW_MS + 2 * MINUTES_15];
  const open: DispatchWindow = { validFromMs: null, validUntilMs: null, notBeforeMs: 0, expiresAtMs: null };
  const from = (atMs: number) => ({ validFromMs: atMs, notBeforeMs: atMs });
  const until = (atMs: number) => ({ validUntilMs: atMs, expiresAtMs: atMs });

  it.each<[string, Window, Partial<DispatchWindow>]>([
    ['without times', {}, {}],
    ['with a beginning', { fromMs: SOON, untilMs: undefined }, from(SOON)],
    ['with an end', { untilMs: SOON }, until(SOON)],
    ['with both', { fromMs: BEFORE, untilMs: SOON }, { ...from(BEFORE), ...until(SOON) }],
    ['with a longest wait', { waitsMs: MINUTES_15 }, { expiresAtMs: NOW_MS + MINUTES_15 }],
    ['with a wait of 0', { waitsMs: 0 }, { expiresAtMs: NOW_MS }],
    ['with an end later than its longest wait', { untilMs: LATE, waitsMs: MINUTES_15 }, until(LATE)],
  ])(
    'a command window (%s) sets the earliest and latest time of sending [C-7.6]',
    (_what, window, expected) => {
      expect(windowOf(window, NOW_MS)).toEqual({ ...open, ...expected });
    },
  );
});

describe('the due time of a dispatch', () => {
  it.each<[string, number, number | null, number]>([
    ['when its window opens', NOW_MS + 1, NOW_MS + 9, NOW_MS + 1],
    ['when its window opens, if nothing ends it', NOW_MS + 1, null, NOW_MS + 1],
    ['when it expires, once its window is open', NOW_MS, NOW_MS + 9, NOW_MS + 9],
    ['when it expires, if it has no beginning', 0, NOW_MS + 9, NOW_MS + 9],
    ['once a day, if it is open and nothing ends it', NOW_MS - 1, null, NOW_MS + 86_400_000],
    ['at its end, if that is before its beginning', NOW_MS + 9, NOW_MS + 5, NOW_MS + 5],
    ['at its end, if that is in the past', 0, NOW_MS - 1, NOW_MS - 1],
  ])('a waiting dispatch is due %s [C-7.6]', (_when, not_before_ms, expires_at_ms, expected) => {
    expect(waitingDue({ not_before_ms, expires_at_ms }, NOW_MS)).toBe(expected);
  });

  it('a sent dispatch is due after 30 s [C-7.8]', () => {
    expect(ackDue(NOW_MS)).toBe(NOW_MS + 30_000);
  });

  it.each<[DispatchState, number, boolean]>([
    ['WAITING', 0, false],
    ['WAITING', 1, true],
    ['SENT', 1, true],
    ['SENT', 0, true],
    ['RECEIVED', 1, true],
    ['IN_PROGRESS', 1, true],
  ])(
    'the device may have received a dispatch in the state %s after %i tries: %s [C-7.8]',
    (state, tries, expected) => {
      expect(wasSent(dispatchRow({ state, tries }))).toBe(expected);
    },
  );

  it.each<[number | null, boolean]>([
    [null, false],
    [NOW_MS + 1, false],
    [NOW_MS, true],
    [NOW_MS - 1, true],
  ])(
    'a dispatch with expires_at_ms = %j has expired at 1898931600000: %s [C-7.6]',
    (expires_at_ms, expected) => {
      expect(isExpired(dispatchRow({ expires_at_ms }), NOW_MS)).toBe(expected);
    },
  );
});

describe('a command whose dispatches have ended', () => {
  const targets = (...ids: string[]) => JSON.stringify({ targets: ids.map((deviceId) => ({ deviceId })) });
  const ended = (
    state: 'COMPLETED' | 'FAILED',
    ids: string[] = ['BESS-1'],
    changes: Partial<DispatchRow> = {},
  ) => dispatchRow({ state, payload: targets(...ids), ...changes });
  const [done, failed] = [ended('COMPLETED'), ended('FAILED')];
  const unanswered = ended('FAILED', undefined, { reason: 'NO_ACK' });
  const mode = ended('FAILED', [], { payload: '{"mode":"STANDARD"}', action: 'MODE_CHANGE' });
  const stop = ended('FAILED', [], { payload: '{"type":"STOP"}', reason: 'NO_ACK' });
  const apart = [ended('FAILED', ['BESS-10', 'FVE-1']), ended('FAILED', ['BESS-2', 'BESS-10'])];

  it.each<[string, DispatchRow[]]>([
    ['its only dispatch', [done]],
    ['each of its dispatches', [done, { ...done, device_id: 'inverter-1' }]],
  ])('a command is COMPLETED when %s is COMPLETED [C-7.8]', (_what, rows) => {
    expect(outcomeOf(rows)).toEqual({ status: 'COMPLETED', reason: null });
  });

  it.each<[string, DispatchRow[], string]>([
    ['its device', [failed], 'BESS-1: device answered FAILED'],
    ['all devices', [ended('FAILED', ['BESS-1', 'BESS-2'])], 'BESS-1, BESS-2: device answered FAILED'],
    [
      'all devices that failed for the same reason, each once',
      apart,
      'BESS-2, BESS-10, FVE-1: device answered FAILED',
    ],
    ['the gateway for a command to the whole plant', [mode], 'gateway-1: device answered FAILED'],
    ['only the code for an unanswered command to the whole plant', [{ ...mode, reason: 'NO_ACK' }], 'NO_ACK'],
    ['the code and the device', [unanswered], 'NO_ACK: BESS-1'],
    [
      'only the devices that failed',
      [done, ended('FAILED', ['FVE-1'], { reason: 'EXPIRED' })],
      'EXPIRED: FVE-1',
    ],
    [
      'each device with its own reason, the codes of the platform first',
      [ended('FAILED', ['FVE-1']), ended('COMPLETED', ['BESS-2']), unanswered],
      'NO_ACK: BESS-1; FVE-1: device answered FAILED',
    ],
    [
      'the MQTT device if the dispatch has no targets',
      [{ ...stop, device_id: 'inverter-1' }],
      'NO_ACK: inverter-1',
    ],
  ])(
    'a command is FAILED when one of its dispatches is FAILED, and its reason names %s [C-7.8]',
    (_what, rows, reason) => {
      expect(outcomeOf(rows)).toEqual({ status: 'FAILED', reason });
    },
  );

  it('the reason names at most 32 devices, even with the longest names, and counts the others [C-7.8]', () => {
    const longest = (count: number) =>
      Array.from({ length: count }, (_none, n) => `B-${`${n}`.padStart(62, '0')}`);
    const names = longest(32).join(', ');
    expect(outcomeOf([ended('FAILED', longest(32))]).reason).toBe(`${names}: device answered FAILED`);
    const stops = longest(500).map((device_id) => ({ ...stop, action: 'EMERGENCY_STOP', device_id }));
    expect(outcomeOf(stops).reason).toBe(`NO_ACK: ${names} and 468 more`);
  });
});
