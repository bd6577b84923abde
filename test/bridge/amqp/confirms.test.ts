/** Publisher confirms: each outcome is sent once and coalesced, never for an open publish. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll, forMany } from '#support/property.ts';
import { type Confirmation, Confirms } from '../../../bridge/amqp/confirms.ts';

type Outcome = 'ack' | 'nack';

function publish(count: number): Confirms {
  const confirms = new Confirms();
  for (let tag = 1; tag <= count; tag++) expect(confirms.next()).toBe(tag);
  return confirms;
}

const ack = (tag: number, multiple = false): Confirmation => ({ kind: 'ack', tag, multiple });
const nack = (tag: number): Confirmation => ({ kind: 'nack', tag, multiple: false });

describe('confirms of a channel', () => {
  it('no publish is confirmed before it has an outcome, and none twice [C-6.4]', () => {
    const confirms = publish(2);
    expect(confirms.take()).toEqual([]);
    confirms.setOutcome(1, 'ack');
    expect(confirms.take()).toEqual([ack(1)]);
    expect(confirms.take()).toEqual([]);
  });

  it('a hundred publishes whose outcomes have no gap get one multiple ack', () => {
    const confirms = publish(100);
    for (let tag = 1; tag <= 100; tag++) confirms.setOutcome(tag, 'ack');
    expect(confirms.take()).toEqual([ack(100, true)]);
  });

  it('while an earlier publish has no outcome, later ones get an ack each', () => {
    const confirms = publish(5);
    confirms.setOutcome(5, 'ack');
    confirms.setOutcome(3, 'ack');
    expect(confirms.take()).toEqual([ack(3), ack(5)]);
    confirms.setOutcome(1, 'ack');
    expect(confirms.take()).toEqual([ack(1)]);
    confirms.setOutcome(4, 'ack');
    confirms.setOutcome(2, 'ack');
    expect(confirms.take()).toEqual([ack(4, true)]);
  });

  it('a nack is sent before the multiple ack that would include its publish', () => {
    const confirms = publish(4);
    for (const tag of [4, 3, 1]) confirms.setOutcome(tag, 'ack');
    confirms.setOutcome(2, 'nack');
    expect(confirms.take()).toEqual([nack(2), ack(4, true)]);
  });

  it('a nack does not wait for an earlier publish without an outcome', () => {
    const confirms = publish(3);
    confirms.setOutcome(2, 'nack');
    confirms.setOutcome(3, 'ack');
    expect(confirms.take()).toEqual([nack(2), ack(3)]);
    confirms.setOutcome(1, 'ack');
    expect(confirms.take()).toEqual([ack(1)]);
  });

  it('three nacked publishes get one nack each, in order, and no ack', () => {
    const confirms = publish(3);
    for (const tag of [3, 1, 2]) confirms.setOutcome(tag, 'nack');
    expect(confirms.take()).toEqual([nack(1), nack(2), nack(3)]);
    confirms.next();
    confirms.setOutcome(4, 'ack');
    expect(confirms.take()).toEqual([ack(4)]);
  });
});

type Step = { do: 'publish' } | { do: 'outcome'; pick: number; outcome: Outcome } | { do: 'take' };

const step: fc.Arbitrary<Step> = fc.oneof(
  { arbitrary: fc.constant({ do: 'publish' as const }), weight: 3 },
  {
    arbitrary: fc.record({
      do: fc.constant('outcome' as const),
      pick: fc.nat(1_000),
      outcome: fc.constantFrom<Outcome>('ack', 'ack', 'ack', 'nack'),
    }),
    weight: 3,
  },
  { arbitrary: fc.constant({ do: 'take' as const }), weight: 1 },
);

/** A publisher that keeps a list of its publishes and removes the confirmed ones. */
class NaivePublisher {
  readonly waiting = new Set<number>();
  readonly confirmed = new Map<number, Outcome>();

  hear({ kind, tag, multiple }: Confirmation): void {
    expect(this.waiting.has(tag)).toBe(true);
    const covered = multiple ? [...this.waiting].filter((one) => one <= tag) : [tag];
    for (const one of covered) {
      this.waiting.delete(one);
      this.confirmed.set(one, kind);
    }
  }
}

describe('confirms in any order', () => {
  it('a publisher receives each known outcome exactly once', () => {
    forMany(300, fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
      const confirms = new Confirms();
      const publisher = new NaivePublisher();
      const open: number[] = [];
      const outcomes = new Map<number, Outcome>();
      const take = () => {
        for (const confirmation of confirms.take()) publisher.hear(confirmation);
        expect(new Map([...publisher.confirmed].sort(([left], [right]) => left - right))).toEqual(
          new Map([...outcomes].sort(([left], [right]) => left - right)),
        );
      };
      for (const one of steps) {
        if (one.do === 'take') take();
        else if (one.do === 'publish') {
          const tag = confirms.next();
          open.push(tag);
          publisher.waiting.add(tag);
        } else if (open.length > 0) {
          const [tag = 0] = open.splice(one.pick % open.length, 1);
          confirms.setOutcome(tag, one.outcome);
          outcomes.set(tag, one.outcome);
        }
      }
      take();
    });
  });

  it('outcomes without a gap are sent as one ack', () => {
    forAll(fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 10 }), (sizes) => {
      const confirms = new Confirms();
      for (const size of sizes) {
        const tags = Array.from({ length: size }, () => confirms.next());
        for (const tag of tags.reverse()) confirms.setOutcome(tag, 'ack');
        expect(confirms.take()).toEqual([ack(tags[0] ?? 0, size > 1)]);
      }
    });
  });
});
