/**
 * A random receiver, and attempts that end in any order, while the organization changes the webhook: every event is
 * delivered, and the cursor passes no event before that [C-12.4].
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forMany } from '#support/property.ts';
import { Delivery, URL_A, URL_B, webhookCopy } from '#workerd/webhook-endpoint.ts';
import { LIMIT } from '../../../../protocol/limits.ts';

type Step =
  | { do: 'end'; which: number; outcome: 'delivered' | 'failed' | 'gone'; laterMs: number | null }
  | { do: 'add'; count: number }
  | { do: 'recover'; back: number }
  | { do: 'begin' | 'wait' | 'pause' | 'enable' | 'use' | 'move' | 'restart' };

const WAYS = fc.constantFrom('delivered', 'delivered', 'delivered', 'failed', 'gone') as fc.Arbitrary<
  'delivered' | 'failed' | 'gone'
>;
const END: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('end' as const),
  which: fc.nat(20),
  outcome: WAYS,
  laterMs: fc.constantFrom(null, null, 7_000),
});
const BEGIN: fc.Arbitrary<Step> = fc.constant({ do: 'begin' });
const STEP: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: END },
  { weight: 6, arbitrary: BEGIN },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('add' as const), count: fc.integer({ min: 1, max: 50 }) }),
  },
  { weight: 3, arbitrary: fc.constant({ do: 'wait' as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('recover' as const), back: fc.nat(30) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom('pause', 'enable', 'use', 'move', 'restart'),
    }) as fc.Arbitrary<Step>,
  },
);

class Model {
  readonly delivery = new Delivery(0, { verifiedUrl: null });
  /** Delivered events, to the present URL, or to the URL at which they were first delivered. */
  delivered = new Set<number>();
  #cursor = 0;

  run(step: Step): void {
    const { delivery } = this;
    const { endpoint } = delivery;
    switch (step.do) {
      case 'begin':
        delivery.begin();
        break;
      case 'end':
        this.#end(step.which, step.outcome, step.laterMs);
        break;
      case 'add':
        delivery.add(step.count);
        break;
      case 'wait':
        delivery.wait();
        break;
      case 'pause':
        delivery.now += 90_000;
        break;
      case 'enable':
        endpoint.enable(delivery.now);
        break;
      case 'use':
        endpoint.use(webhookCopy({ url: endpoint.webhook.url }), delivery.now);
        break;
      case 'move':
        endpoint.use(webhookCopy({ url: endpoint.webhook.url === URL_A ? URL_B : URL_A }), delivery.now);
        break;
      case 'restart':
        delivery.restart();
        break;
      case 'recover':
        this.#recover(step.back);
        break;
    }
    this.check();
  }

  check(): void {
    const { cursor, done } = this.delivery.state;
    expect(cursor).toBeGreaterThanOrEqual(this.#cursor);
    for (let sequence = this.#cursor + 1; sequence <= cursor; sequence++)
      expect([sequence, this.delivered.has(sequence)]).toEqual([sequence, true]);
    for (const sequence of done) expect([sequence, this.delivered.has(sequence)]).toEqual([sequence, true]);
    this.#cursor = cursor;
    const events = this.delivery.sequences.filter((sequence) => sequence !== null);
    expect(new Set(events).size).toBe(events.length);
    // The oldest event may be tried beside a full window of delivered ones.
    expect(events.length + done.length).toBeLessThanOrEqual(LIMIT.webhookWindow + 1);
  }

  /** A receiver that works again gets all events; the object has turns only when it says that it is due. */
  finish(): void {
    const { delivery } = this;
    delivery.endpoint.enable(delivery.now);
    for (let turn = 0; turn < 2_000; turn++) {
      delivery.begin();
      this.check();
      if (delivery.underWay.length > 0) this.#end(turn * 7, 'delivered', null);
      else if (delivery.dueMs() === undefined) break;
      else delivery.wait();
    }
    expect(delivery.state).toMatchObject({ cursor: delivery.last, done: [], failures: 0 });
    for (let sequence = 1; sequence <= delivery.last; sequence++)
      expect([sequence, this.delivered.has(sequence)]).toEqual([sequence, true]);
  }

  #end(which: number, outcome: 'delivered' | 'failed' | 'gone', laterMs: number | null): void {
    const { delivery } = this;
    const begun = delivery.underWay[which % Math.max(1, delivery.underWay.length)];
    if (!begun) return;
    const isPresent = begun.url === delivery.endpoint.webhook.url;
    if (outcome === 'delivered' && isPresent && begun.sequence !== null) this.delivered.add(begun.sequence);
    delivery.end(begun.sequence, outcome, laterMs);
  }

  /** All events after the sequence must be delivered once more. */
  #recover(back: number): void {
    const sequence = Math.max(0, this.delivery.state.cursor - back);
    for (const one of [...this.delivered]) if (one > sequence) this.delivered.delete(one);
    this.delivery.endpoint.recover(sequence, this.delivery.now);
    this.#cursor = sequence;
  }
}

describe('the delivery of a webhook', () => {
  it('loses no event, whatever the receiver answers and the organization changes [C-12.4]', () => {
    forMany(500, fc.array(STEP, { minLength: 1, maxLength: 80 }), (steps) => {
      const model = new Model();
      for (const step of steps) model.run(step);
      model.finish();
    });
  });

  it('posts no event twice while all attempts succeed or fail and nothing is changed [C-12.4]', () => {
    const outcomes = fc.array(fc.tuple(fc.nat(7), fc.boolean()), { minLength: 20, maxLength: 120 });
    forMany(300, outcomes, (ends) => {
      const model = new Model();
      model.delivery.add(40);
      const failed: number[] = [];
      for (const [which, isFailure] of ends) {
        model.delivery.wait();
        model.delivery.begin();
        const { length } = model.delivery.underWay;
        const begun = model.delivery.underWay[which % Math.max(1, length)];
        if (isFailure && begun) failed.push(begun.sequence ?? 0);
        model.run({ do: 'end', which, outcome: isFailure ? 'failed' : 'delivered', laterMs: 7_000 });
      }
      const { posted } = model.delivery;
      for (const sequence of new Set(posted)) {
        const count = (list: number[]) => list.filter((one) => one === sequence).length;
        expect([sequence, count(posted)]).toEqual([
          sequence,
          expect.toSatisfy((n) => n <= count(failed) + 1),
        ]);
      }
    });
  });
});
