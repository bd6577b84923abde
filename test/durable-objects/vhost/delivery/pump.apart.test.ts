/** A pump delivers a limited number of messages in one turn, and the rest in further turns (rule 9). */
import { describe, expect, it, vi } from 'vitest';
import { hand, numbers, range } from '#workerd/outbox-events.ts';
import type { Partner } from '#workerd/partner.ts';
import { consumption } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { Turns } from '../../../../durable-objects/object/turn.ts';

const EVENTS = 2_000;
/** The most deliveries of one turn. */
const IN_ONE_TURN = 512;
/** Rows that a turn writes besides one for each delivery. */
const OTHER_ROWS = 20;

/** Watches all turns from here on: their number, and the most rows that one wrote. A lease is one row. */
function watchTurns(): { most: number; turns: number } {
  const seen = { most: 0, turns: 0 };
  const { run } = Turns.prototype;
  vi.spyOn(Turns.prototype, 'run').mockImplementation(function (this: Turns, ...work) {
    const before = this.rowsWritten;
    const value = run.apply(this, work);
    seen.most = Math.max(seen.most, this.rowsWritten - before);
    seen.turns += 1;
    return value as never;
  });
  return seen;
}

/** A partner whose events wait for a consumer. */
async function openWithEvents(): Promise<Partner> {
  const { key, partner, siteId } = await setScene({ partner: 'connected' });
  for (let from = 1; from <= EVENTS; from += 250) await hand(key, siteId, from, 250);
  return partner;
}

/** Grants credit like a bridge whose client reads, until every message has arrived. */
async function readAll(partner: Partner): Promise<void> {
  await vi.waitFor(() => {
    partner.link.send({ kind: 'credit', drainedBytes: 100_000_000 });
    expect(partner.deliveries()).toHaveLength(EVENTS);
  }, 10_000);
}

describe('two thousand waiting messages', () => {
  it('go to a consumer without prefetch in turns of at most 512, in order (rule 9)', async () => {
    const partner = await openWithEvents();
    const seen = watchTurns();
    await partner.consume('event.status');
    await readAll(partner);
    expect(seen.most).toBeLessThanOrEqual(IN_ONE_TURN + OTHER_ROWS);
    expect(seen.turns).toBeGreaterThanOrEqual(EVENTS / IN_ONE_TURN);
    expect(numbers(partner)).toEqual(range(1, EVENTS));
  });

  it('are all delivered to a consumer whose client sends no further frame (rule 9)', async () => {
    const partner = await openWithEvents();
    await partner.consume('event.status', { noAck: true });
    await partner.delivered(EVENTS);
    expect(numbers(partner)).toEqual(range(1, EVENTS));
  });

  it('go in equal parts to two consumers, each message once, in turns of at most 512 (rule 9)', async () => {
    const partner = await openWithEvents();
    const seen = watchTurns();
    const queue = partner.queueName('event.status');
    await partner.askAll(consumption(queue, { tag: 'a' }), consumption(queue, { tag: 'b' }));
    await readAll(partner);
    expect(seen.most).toBeLessThanOrEqual(IN_ONE_TURN + OTHER_ROWS);
    expect(numbers(partner)).toEqual(range(1, EVENTS));
    expect(numbers(partner, 'a')).toHaveLength(EVENTS / 2);
    expect(numbers(partner, 'b')).toHaveLength(EVENTS / 2);
  });
});
