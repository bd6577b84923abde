/**
 * The slots of schedules in time: the current slot, the slots that newer schedules leave to older ones, and
 * the text about skipped slots.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  cutByNewer,
  cutSlot,
  lastEndMs,
  nextBoundaryMs,
  type SlotWindow,
  type StoredSlot,
  skippedText,
  slotAt,
} from '../../../../durable-objects/site/schedule/slots.ts';

const slotsOf = (count: number): StoredSlot[] =>
  Array.from({ length: count }, (_none, index): StoredSlot => ['STANDARD', index]);

/** A window of the given number of slots from the given time on. */
const windowOf = (startsAtMs: number, count: number, slotMs = 10): SlotWindow => ({
  startsAtMs,
  endsAtMs: startsAtMs + count * slotMs,
  slotMs,
});

describe('the slot of a moment', () => {
  const window = windowOf(100, 3);
  const slots = slotsOf(3);

  it('each slot includes its start and excludes its end, without gaps, and there is no slot outside the window [C-7.9]', () => {
    const at = (atMs: number) => slotAt(window, slots, atMs)?.slotIndex;
    expect([99, 100, 109, 110, 129, 130].map(at)).toEqual([undefined, 0, 0, 1, 2, undefined]);
  });

  it('a cut slot ends early, and is followed by no slot until the next one starts [C-7.9]', () => {
    const cut = cutSlot(slots, 1, 115, 'REPLACED');
    expect(slotAt(window, cut, 114)).toEqual({ slotIndex: 1, mode: 'STANDARD', targetKw: 1, endsAtMs: 115 });
    expect(slotAt(window, cut, 115)).toBeUndefined();
    expect(slotAt(window, cut, 120)?.slotIndex).toBe(2);
  });

  it('a slot that is cut twice ends at the earlier cut [C-7.9]', () => {
    const [, once] = cutSlot(cutSlot(slots, 1, 113, 'NO_ACK'), 1, 117, 'REPLACED');
    expect(once?.[2]).toEqual([113, 'NO_ACK']);
    const [, twice] = cutSlot(cutSlot(slots, 1, 117, 'REPLACED'), 1, 113, 'NO_ACK');
    expect(twice?.[2]).toEqual([113, 'NO_ACK']);
  });
});

describe('the next boundary', () => {
  const window = windowOf(100, 3);

  it('is the start of the window, or the start, end or cut of a slot [C-7.9]', () => {
    const slots = cutSlot(slotsOf(3), 1, 115, 'REPLACED');
    const next = (atMs: number) => nextBoundaryMs(window, () => slots, atMs);
    expect([0, 100, 109, 110, 115, 119, 120, 129].map(next)).toEqual([
      100, 110, 110, 115, 120, 120, 130, 130,
    ]);
    expect(next(130)).toBeUndefined();
  });

  it('the slot does not change before the next boundary [C-7.9]', () => {
    const cuts = fc.array(fc.tuple(fc.nat(5), fc.integer({ min: 0, max: 80 })), { maxLength: 4 });
    forAll(cuts, fc.integer({ min: -5, max: 70 }), (some, now) => {
      const wide = windowOf(0, 6);
      const slots = some.reduce((left, [index, atMs]) => cutSlot(left, index, atMs, 'X'), slotsOf(6));
      const next = nextBoundaryMs(wide, () => slots, now) ?? 80;
      expect(next).toBeGreaterThan(now);
      for (let atMs = now; atMs < next; atMs++)
        expect(slotAt(wide, slots, atMs)).toEqual(slotAt(wide, slots, now));
    });
  });
});

describe('a newer schedule', () => {
  const older = windowOf(100, 4);
  const left = (newer: SlotWindow, now = 0) => {
    const slots = cutByNewer(older, slotsOf(4), newer, now);
    return [...Array(40).keys()].filter((offset) => slotAt(older, slots, 100 + offset) !== undefined);
  };
  const range = (from: number, to: number) =>
    Array.from({ length: to - from }, (_none, index) => from + index);

  it.each<[string, SlotWindow, number[]]>([
    ['that ends before the older begins leaves it all slots', windowOf(60, 4), range(0, 40)],
    ['that begins after the older ends leaves it all slots', windowOf(140, 4), range(0, 40)],
    ['of the same slots leaves the older none', windowOf(100, 4), []],
    ['of one slot removes only that slot', windowOf(110, 1), [...range(0, 10), ...range(20, 40)]],
    ['that begins in a slot leaves the first part of that slot', windowOf(115, 3), range(0, 15)],
    ['that ends in a slot removes that whole slot', windowOf(95, 1, 10), range(10, 40)],
    [
      'of one short slot removes the rest of the slot in which it begins',
      windowOf(112, 1, 2),
      [...range(0, 12), ...range(20, 40)],
    ],
    ['that contains the older leaves it none', windowOf(0, 100), []],
  ])('%s [C-7.9]', (_what, newer, expected) => {
    expect(left(newer)).toEqual(expected);
  });

  it('does not change slots that are over [C-7.9]', () => {
    const slots = cutByNewer(older, slotsOf(4), older, 115);
    expect(slots.map(([, , cut]) => cut?.[0])).toEqual([undefined, 110, 120, 130]);
  });

  it('an older schedule ends with the end of the last slot of which a part is left [C-7.9]', () => {
    expect(lastEndMs(older, slotsOf(4))).toBe(140);
    expect(lastEndMs(older, cutByNewer(older, slotsOf(4), windowOf(115, 100), 0))).toBe(115);
    expect(lastEndMs(older, cutByNewer(older, slotsOf(4), windowOf(115, 1, 10), 0))).toBe(140);
    expect(lastEndMs(older, cutByNewer(older, slotsOf(4), older, 0))).toBe(100);
  });
});

describe('the text about skipped slots', () => {
  it('skipped slots are listed by reason, in ranges, without those that a newer schedule replaced [C-7.9]', () => {
    const skip = (slots: StoredSlot[], why: string, ...indexes: number[]) =>
      indexes.reduce((left, index) => cutSlot(left, index, 0, why), slots);
    expect(skippedText(slotsOf(9))).toBeUndefined();
    expect(skippedText(skip(slotsOf(9), 'REPLACED', 1, 2))).toBeUndefined();
    expect(skippedText(skip(slotsOf(9), 'NO_ACK', 4))).toBe('slot 4 skipped: NO_ACK');
    const both = skip(skip(slotsOf(9), 'CONSTRAINT_VIOLATION', 0, 1, 2, 5, 7, 8), 'NO_ACK', 4);
    expect(skippedText(both)).toBe('slots 0-2, 5, 7-8 skipped: CONSTRAINT_VIOLATION; slot 4 skipped: NO_ACK');
  });
});
