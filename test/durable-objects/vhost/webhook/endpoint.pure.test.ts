/** The cursor of a webhook on the journal: which events are posted together, and what a failure changes. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Delivery, START_MS, URL_A } from '#workerd/webhook-endpoint.ts';
import { LONGEST_MS } from '../../../../durable-objects/vhost/webhook/retry.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const ATTEMPTS = 11;
const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];

beforeEach(() => {
  // No jitter.
  vi.spyOn(Math, 'random').mockReturnValue(0);
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** A delivery whose oldest event failed that many times, each time when it was due. */
function failing(failures: number, events = 20): Delivery {
  const delivery = new Delivery(events);
  delivery.begin();
  delivery.end(1, 'failed');
  delivery.endAll();
  for (let failure = 1; failure < failures; failure++) {
    delivery.wait();
    delivery.tryOnce('failed');
  }
  return delivery;
}

describe('the window of a healthy webhook', () => {
  it('has eight attempts, the oldest events first [C-12.4]', () => {
    const delivery = new Delivery(20);
    expect(delivery.begin()).toEqual(EIGHT);
    expect(delivery.begin()).toEqual([]);
  });

  it('moves on when its oldest event is delivered [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    delivery.end(1);
    expect(delivery.begin()).toEqual([9]);
    expect(delivery.state.cursor).toBe(1);
  });

  it('waits for its oldest event, however many later ones are delivered [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    for (const sequence of [8, 3, 5, 2, 7, 4, 6]) delivery.end(sequence);
    expect(delivery.begin()).toEqual([]);
    expect(delivery.state).toMatchObject({ cursor: 0, done: [8, 3, 5, 2, 7, 4, 6] });
    delivery.end(1);
    expect(delivery.state).toMatchObject({ cursor: 8, done: [] });
    expect(delivery.begin()).toEqual([9, 10, 11, 12, 13, 14, 15, 16]);
  });

  it('ends with the journal, and continues with later events', () => {
    const delivery = new Delivery(3);
    expect(delivery.begin()).toEqual([1, 2, 3]);
    delivery.endAll();
    expect([delivery.state.cursor, delivery.dueMs()]).toEqual([3, undefined]);
    delivery.add(2);
    expect(delivery.dueMs()).toBe(0);
    expect(delivery.begin()).toEqual([4, 5]);
  });

  it('has no event of a type that the webhook does not want, and the cursor passes such events [C-12.4]', () => {
    const delivery = new Delivery(0);
    delivery.add(2, 'alarm');
    delivery.add(1, 'ack');
    delivery.add(40, 'telemetry');
    expect(delivery.begin()).toEqual([3]);
    expect(delivery.state.cursor).toBe(2);
    delivery.end(3);
    delivery.begin();
    expect(delivery.state.cursor).toBe(43);
  });

  it('has again after a restart what was under way, and nothing that was delivered [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    for (const sequence of [1, 2, 4, 6]) delivery.end(sequence);
    expect(delivery.state).toMatchObject({ cursor: 2, done: [4, 6] });
    delivery.restart();
    delivery.trust();
    expect(delivery.begin()).toEqual([3, 5, 7, 8, 9, 10]);
  });

  it('has only the oldest event after a pause or a restart, until that is delivered [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.now += MINUTE;
    expect([delivery.begin(), delivery.begin()]).toEqual([[1], []]);
    delivery.end(1);
    expect(delivery.begin()).toEqual([2, 3, 4, 5, 6, 7, 8, 9]);
    delivery.restart();
    expect([delivery.begin(), delivery.begin()]).toEqual([[2], []]);
    delivery.end(2);
    expect(delivery.begin()).toHaveLength(8);
  });

  it('notes the first event that is kept when earlier ones were deleted before their turn [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.firstKept = 15;
    expect(delivery.begin()).toEqual([15, 16, 17, 18, 19, 20]);
    expect(delivery.state).toMatchObject({ cursor: 14, missedBefore: 15 });
  });
});

describe('a failure', () => {
  it('counts once, although several attempts were under way and all failed [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    delivery.endAll('failed');
    expect(delivery.state).toMatchObject({ failures: 1, nextAtMs: START_MS + 5 * SECOND });
  });

  it('lets only the oldest event be tried, when its time has come and nothing is under way [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    delivery.end(5, 'failed');
    delivery.now += 5 * SECOND;
    expect(delivery.begin()).toEqual([]);
    for (const sequence of [1, 2, 3, 4, 6, 7]) delivery.end(sequence);
    expect(delivery.begin()).toEqual([]);
    delivery.end(8, 'failed');
    expect(delivery.begin()).toEqual([5]);
    expect(delivery.begin()).toEqual([]);
    delivery.end(5);
    expect(delivery.begin()).toEqual([8, 9, 10, 11, 12, 13, 14, 15]);
  });

  it('is not forgotten when an attempt succeeds that began before it [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    delivery.end(1, 'failed');
    delivery.end(2);
    expect(delivery.state).toMatchObject({ failures: 1, failingSinceMs: START_MS, done: [2] });
    delivery.endAll();
    delivery.now += 5 * SECOND - 1;
    expect(delivery.begin()).toEqual([]);
    delivery.now += 1;
    expect(delivery.begin()).toEqual([1]);
  });

  it('is followed by attempts after 5 s, 1 min, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h, then by none [C-12.4]', () => {
    const delivery = failing(1);
    const pauses: number[] = [];
    while (delivery.endpoint.status === 'ENABLED') {
      pauses.push(delivery.wait());
      delivery.tryOnce('failed');
    }
    expect(pauses).toEqual([
      ...[5 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE],
      ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR),
    ]);
    expect(delivery.posted.filter((sequence) => sequence === 1)).toHaveLength(ATTEMPTS);
    expect(delivery.state).toMatchObject({ disabled: 'ATTEMPTS_FAILED', isReported: false, nextAtMs: null });
    expect([delivery.begin(), delivery.dueMs()]).toEqual([[], undefined]);
  });

  it('begins, if a success follows, the schedule from its start, and the window is full at once [C-12.4]', () => {
    const delivery = failing(5);
    expect(delivery.state).toMatchObject({ failures: 5, failingSinceMs: START_MS });
    delivery.wait();
    delivery.tryOnce('delivered');
    expect(delivery.state).toMatchObject({ failures: 0, failingSinceMs: null, nextAtMs: null, cursor: 8 });
    expect(delivery.begin()).toHaveLength(8);
    delivery.end(9, 'failed');
    expect(delivery.state).toMatchObject({ failures: 1, nextAtMs: delivery.now + 5 * SECOND });
  });

  it('survives a restart: the next attempt keeps its time [C-12.4]', () => {
    const delivery = failing(3);
    const { nextAtMs } = delivery.state;
    delivery.restart();
    expect(delivery.begin()).toEqual([]);
    expect(delivery.dueMs()).toBe(nextAtMs);
    delivery.wait();
    expect(delivery.begin()).toEqual([1]);
  });
});

describe('a receiver that asks for a later attempt', () => {
  it('is asked again after its own pause, and uses up no attempt [C-12.4]', () => {
    const delivery = failing(3);
    delivery.wait();
    delivery.tryOnce('failed', 7 * SECOND);
    expect(delivery.state).toMatchObject({ failures: 3, nextAtMs: delivery.now + 7 * SECOND });
    delivery.wait();
    delivery.tryOnce('failed');
    expect(delivery.state).toMatchObject({ failures: 4, nextAtMs: delivery.now + 30 * MINUTE });
  });

  it('is asked about the oldest event only [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    delivery.end(1, 'failed', 7 * SECOND);
    delivery.endAll();
    expect(delivery.state).toMatchObject({ failures: 1, nextAtMs: START_MS + 7 * SECOND });
    delivery.wait();
    expect(delivery.begin()).toEqual([1]);
  });

  it('again and again is disabled after the time of the whole schedule, and not before [C-12.4]', () => {
    const delivery = new Delivery(1);
    const rounds = Math.ceil(LONGEST_MS / HOUR);
    for (let round = 0; round < rounds; round++) {
      delivery.tryOnce('failed', HOUR);
      delivery.wait();
    }
    expect(delivery.endpoint.status).toBe('ENABLED');
    delivery.tryOnce('failed', HOUR);
    expect(delivery.state).toMatchObject({ disabled: 'ATTEMPTS_FAILED', failures: 1 });
    expect(delivery.now - START_MS).toBeGreaterThanOrEqual(LONGEST_MS);
  });
});

describe('410 Gone', () => {
  it('disables the webhook at once: no attempt begins, and others under way do not count [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    delivery.now += 1;
    expect(delivery.end(3, 'gone')).toBe(true);
    expect(delivery.end(1, 'failed')).toBe(false);
    expect(delivery.end(2, 'gone')).toBe(false);
    const disabled = { disabled: 'GONE', statusAtMs: START_MS + 1, failures: 0, isReported: false };
    expect(delivery.state).toMatchObject(disabled);
    expect([delivery.begin(), delivery.dueMs()]).toEqual([[], undefined]);
  });

  it('disables the webhook, too, if its attempt began before a failure [C-12.4]', () => {
    const delivery = new Delivery(2);
    delivery.begin();
    delivery.end(1, 'failed');
    delivery.end(2, 'gone');
    expect(delivery.endpoint.status).toBe('DISABLED');
  });

  it('keeps what was delivered beside it [C-12.4]', () => {
    const delivery = new Delivery(3);
    delivery.begin();
    delivery.end(1, 'gone');
    delivery.end(2);
    delivery.end(3, 'failed');
    delivery.endpoint.enable(delivery.now);
    expect(delivery.begin()).toEqual([1, 3]);
  });
});

describe('the first message', () => {
  it('is the only one until the receiver has answered it, and counts as one attempt [C-12.4]', () => {
    const delivery = new Delivery(5, { verifiedUrl: null });
    expect(delivery.endpoint.status).toBe('PENDING');
    expect(delivery.begin()).toEqual([0]);
    expect([delivery.begin(), delivery.dueMs()]).toEqual([[], undefined]);
    expect(delivery.end(null)).toBe(true);
    expect(delivery.state).toMatchObject({ verifiedUrl: URL_A, isReported: false });
    expect(delivery.begin()).toEqual([1, 2, 3, 4, 5]);
  });

  it('is repeated as an event is, and disables the webhook when no attempt is left [C-12.4]', () => {
    const delivery = new Delivery(5, { verifiedUrl: null });
    for (let attempt = 1; attempt < ATTEMPTS; attempt++) {
      delivery.tryOnce('failed');
      expect(delivery.dueMs()).toBe(delivery.state.nextAtMs);
      delivery.wait();
    }
    expect(delivery.endpoint.status).toBe('PENDING');
    delivery.tryOnce('failed');
    expect(delivery.state.disabled).toBe('ATTEMPTS_FAILED');
    expect(new Set(delivery.posted)).toEqual(new Set([0]));
  });
});
