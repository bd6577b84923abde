/** Delivery tags of a channel and their leases. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forMany } from '#support/property.ts';
import { Unacked } from '../../../bridge/amqp/unacked.ts';

/** Deliveries with tags 1, 2, 3, … and these leases. */
function delivered(...leases: (number | null)[]): Unacked {
  const unacked = new Unacked();
  for (const [index, lease] of leases.entries()) expect(unacked.add(lease)).toBe(index + 1);
  return unacked;
}

describe('unacknowledged deliveries', () => {
  it('single deliveries are settled once, in any order', () => {
    const unacked = delivered(11, 12, 13);
    expect(unacked.take(2, false)).toEqual([12]);
    expect(unacked.take(2, false)).toBeUndefined();
    expect(unacked.take(3, false)).toEqual([13]);
    expect(unacked.take(1, false)).toEqual([11]);
    expect(unacked.takeAll()).toEqual([]);
  });

  it('multiple settles all remaining deliveries up to the tag', () => {
    const unacked = delivered(11, 12, 13, 14);
    expect(unacked.take(2, false)).toEqual([12]);
    expect(unacked.take(3, true)).toEqual([11, 13]);
    expect(unacked.take(3, true)).toBeUndefined();
    expect(unacked.take(4, true)).toEqual([14]);
  });

  it('multiple with tag 0 settles all deliveries, even if none is left', () => {
    const unacked = delivered(11, 12);
    expect(unacked.take(0, true)).toEqual([11, 12]);
    expect(unacked.take(0, true)).toEqual([]);
  });

  it.each([
    [0, false],
    [3, false],
    [3, true],
    [-1, false],
    [1.5, false],
    [2 ** 64, true],
  ])('tag %d with multiple %s is unknown', (tag, multiple) => {
    const unacked = delivered(11, 12);
    expect(unacked.take(tag, multiple)).toBeUndefined();
    expect(unacked.takeAll()).toEqual([11, 12]);
  });

  it('deliveries that need no acknowledgement get a tag and cannot be settled', () => {
    const unacked = delivered(null, 12, null);
    expect(unacked.take(1, false)).toBeUndefined();
    expect(unacked.take(3, false)).toBeUndefined();
    expect(unacked.add(14)).toBe(4);
    expect(unacked.take(4, true)).toEqual([12, 14]);
  });

  it('tags continue to count after all deliveries were taken', () => {
    const unacked = delivered(11, 12);
    expect(unacked.takeAll()).toEqual([11, 12]);
    expect(unacked.add(13)).toBe(3);
    expect(unacked.take(1, false)).toBeUndefined();
  });
});

type Step = { do: 'add'; lease: number | null } | { do: 'single' | 'multiple'; tag: number } | { do: 'all' };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('add' as const), lease: fc.option(fc.nat(1_000), { freq: 8 }) }),
  fc.record({ do: fc.constantFrom('single' as const, 'multiple' as const), tag: fc.nat(40) }),
  fc.record({ do: fc.constant('all' as const) }),
);

/** A plain list of unsettled deliveries. */
class NaiveUnacked {
  lastTag = 0;
  out: { tag: number; lease: number }[] = [];

  take(fits: (tag: number) => boolean): number[] | undefined {
    const taken = this.out.filter(({ tag }) => fits(tag));
    this.out = this.out.filter(({ tag }) => !fits(tag));
    return taken.length > 0 ? taken.map(({ lease }) => lease) : undefined;
  }
}

describe('random deliveries and settlements', () => {
  it('give the same leases as in a plain list', () => {
    forMany(300, fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const unacked = new Unacked();
      const naive = new NaiveUnacked();
      for (const one of steps) {
        switch (one.do) {
          case 'add':
            naive.lastTag += 1;
            expect(unacked.add(one.lease)).toBe(naive.lastTag);
            if (one.lease !== null) naive.out.push({ tag: naive.lastTag, lease: one.lease });
            break;
          case 'single':
            expect(unacked.take(one.tag, false)).toEqual(naive.take((tag) => tag === one.tag));
            break;
          case 'multiple': {
            // An ack of many whose own tag was already settled is not defined.
            const isOut = naive.out.some(({ tag }) => tag === one.tag);
            if (one.tag === 0) expect(unacked.take(0, true)).toEqual(naive.take(() => true) ?? []);
            else if (isOut) expect(unacked.take(one.tag, true)).toEqual(naive.take((tag) => tag <= one.tag));
            else if (one.tag > naive.lastTag) expect(unacked.take(one.tag, true)).toBeUndefined();
            break;
          }
          case 'all':
            expect(unacked.takeAll()).toEqual(naive.take(() => true) ?? []);
        }
      }
      expect(unacked.takeAll()).toEqual(naive.out.map(({ lease }) => lease));
    });
  });
});
