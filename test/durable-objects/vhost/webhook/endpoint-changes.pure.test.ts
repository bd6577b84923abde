/** What an organization changes at a webhook while its events are delivered: URL, types, enable and recover. */
import { describe, expect, it } from 'vitest';
import { Delivery, START_MS, URL_A, URL_B, webhookCopy } from '#workerd/webhook-endpoint.ts';

const TEN_TO_SEVENTEEN = [10, 11, 12, 13, 14, 15, 16, 17];

describe('another URL', () => {
  it('must answer the first message before it gets events, also if the URL before was disabled [C-12.4]', () => {
    const delivery = new Delivery(3);
    delivery.begin();
    delivery.end(1, 'gone');
    delivery.endAll('failed');
    delivery.now += 1_000;
    delivery.endpoint.use(webhookCopy({ url: URL_B }), delivery.now);
    expect(delivery.endpoint.status).toBe('PENDING');
    expect(delivery.state).toMatchObject({ disabled: null, isReported: false });
    expect(delivery.state.statusAtMs).toBeGreaterThanOrEqual(delivery.now);
    expect(delivery.begin()).toEqual([0]);
    expect(delivery.underWay).toMatchObject([{ sequence: null, url: URL_B }]);
    delivery.end(null);
    expect(delivery.drain()).toEqual([1, 2, 3]);
  });

  it('makes attempts at the URL before count for nothing, whatever they end with [C-12.4]', () => {
    const delivery = new Delivery(3);
    delivery.begin();
    delivery.endpoint.use(webhookCopy({ url: URL_B }), delivery.now);
    delivery.end(1);
    delivery.end(2, 'failed');
    delivery.end(3, 'gone');
    expect(delivery.state).toMatchObject({ cursor: 0, done: [], failures: 0, disabled: null });
    delivery.tryOnce('delivered');
    expect(delivery.drain()).toEqual([1, 2, 3]);
  });

  it('gets the events that were under way at the URL before, and those that follow [C-12.4]', () => {
    const delivery = new Delivery(12);
    delivery.begin();
    delivery.endpoint.use(webhookCopy({ url: URL_B }), delivery.now);
    const before = delivery.posted.length;
    delivery.begin();
    delivery.drain();
    const posted = new Set(delivery.posted.slice(before));
    expect(posted).toEqual(new Set([0, ...Array.from({ length: 12 }, (_, index) => index + 1)]));
    expect(delivery.state.cursor).toBe(12);
  });

  it('during the first message to the URL before waits for its end, which does not count [C-12.4]', () => {
    const delivery = new Delivery(3, { verifiedUrl: null });
    delivery.begin();
    delivery.endpoint.use(webhookCopy({ url: URL_B }), delivery.now);
    expect(delivery.begin()).toEqual([]);
    expect(delivery.end(null)).toBe(false);
    expect(delivery.endpoint.status).toBe('PENDING');
    expect(delivery.begin()).toEqual([0]);
    expect(delivery.end(null)).toBe(true);
    expect(delivery.state.verifiedUrl).toBe(URL_B);
  });

  it('is found when the object is loaded with a newer copy of the registry [C-12.4]', () => {
    const delivery = new Delivery(3, { url: URL_B, verifiedUrl: URL_B, failures: 3, nextAtMs: START_MS + 9 });
    expect(delivery.endpoint.status).toBe('PENDING');
    expect(delivery.state).toMatchObject({ url: URL_A, failures: 0, nextAtMs: null });
  });
});

describe('a change that leaves the URL', () => {
  it('changes by the types which events follow, and needs no new first message [C-12.4]', () => {
    const delivery = new Delivery(2);
    delivery.add(2, 'alarm');
    delivery.begin();
    delivery.endpoint.use(webhookCopy({ types: ['alarm'] }), delivery.now);
    expect(delivery.begin()).toEqual([3, 4]);
    delivery.endAll();
    delivery.begin();
    expect(delivery.state.cursor).toBe(4);
  });

  it('while eight attempts are under way stops nothing [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    delivery.endpoint.use(webhookCopy(), delivery.now);
    delivery.endAll();
    delivery.drain();
    expect(delivery.state.cursor).toBe(20);
    expect(delivery.posted).toHaveLength(20);
  });

  it('keeps the time of the next attempt after a failure [C-12.4]', () => {
    const delivery = new Delivery(2);
    delivery.begin();
    delivery.endAll('failed');
    const { nextAtMs } = delivery.state;
    delivery.endpoint.use(webhookCopy({ types: ['ack', 'alarm'] }), delivery.now);
    expect(delivery.state).toMatchObject({ failures: 1, nextAtMs });
  });
});

describe('the time of a status', () => {
  it('is later than that of the status before, also within a millisecond [C-12.4]', () => {
    const delivery = new Delivery(1, { verifiedUrl: null });
    const times = [delivery.state.statusAtMs];
    delivery.tryOnce('delivered');
    times.push(delivery.state.statusAtMs);
    delivery.tryOnce('gone');
    times.push(delivery.state.statusAtMs);
    delivery.endpoint.enable(delivery.now);
    times.push(delivery.state.statusAtMs);
    expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
  });
});

describe('enable', () => {
  it('delivers from where a disabled webhook stopped [C-12.4]', () => {
    const delivery = new Delivery(5);
    delivery.begin();
    delivery.end(1);
    delivery.end(2, 'gone');
    delivery.endAll('failed');
    delivery.now += 1_000;
    delivery.endpoint.enable(delivery.now);
    expect(delivery.endpoint.status).toBe('ENABLED');
    expect(delivery.state).toMatchObject({ statusAtMs: START_MS + 1_000, isReported: false });
    expect(delivery.begin()).toEqual([2, 3, 4, 5]);
  });

  it('tries again at once if the attempts of the webhook fail, and the status does not change [C-12.4]', () => {
    const delivery = new Delivery(5);
    delivery.begin();
    delivery.endAll('failed');
    delivery.now += 1_000;
    delivery.endpoint.enable(delivery.now);
    const asBefore = { statusAtMs: START_MS, isReported: true };
    expect(delivery.state).toMatchObject({ failures: 0, nextAtMs: null, ...asBefore });
    expect(delivery.begin()).toEqual([1, 2, 3, 4, 5]);
  });

  it('makes a failure that began before it count for nothing, but not a success [C-12.4]', () => {
    const delivery = new Delivery(3);
    delivery.begin();
    delivery.endpoint.enable(delivery.now);
    delivery.end(1, 'failed');
    delivery.end(2);
    expect(delivery.state).toMatchObject({ failures: 0, done: [2] });
    delivery.end(3, 'failed');
    expect(delivery.begin()).toEqual([1, 3]);
  });

  it('while eight attempts are under way stops nothing [C-12.4]', () => {
    const delivery = new Delivery(20);
    delivery.begin();
    delivery.endpoint.enable(delivery.now);
    delivery.endAll();
    delivery.drain();
    expect(delivery.state.cursor).toBe(20);
  });

  it('asks a receiver again that has never answered [C-12.4]', () => {
    const delivery = new Delivery(3, { verifiedUrl: null });
    delivery.tryOnce('gone');
    delivery.endpoint.enable(delivery.now);
    expect(delivery.endpoint.status).toBe('PENDING');
    expect(delivery.begin()).toEqual([0]);
  });
});

describe('recover', () => {
  it('delivers the events after a sequence again, and only those [C-12.4]', () => {
    const delivery = new Delivery(12);
    delivery.drain();
    const before = delivery.posted.length;
    delivery.endpoint.recover(9, delivery.now);
    delivery.drain();
    expect(delivery.posted.slice(before)).toEqual([10, 11, 12]);
    expect(delivery.state).toMatchObject({ cursor: 12, missedBefore: null });
  });

  it('while attempts are under way delivers all events again, each before the cursor passes it [C-12.4]', () => {
    const delivery = new Delivery(17);
    while (delivery.state.cursor < 9) {
      delivery.begin();
      if (delivery.state.cursor < 9) delivery.end(delivery.state.cursor + 1);
    }
    delivery.begin();
    expect(delivery.sequences).toEqual(TEN_TO_SEVENTEEN);
    const before = delivery.posted.length;
    delivery.endpoint.recover(0, delivery.now);
    expect(delivery.state).toMatchObject({ cursor: 0, done: [] });
    delivery.endAll();
    delivery.drain();
    const again = new Set(delivery.posted.slice(before));
    expect(again).toEqual(new Set([1, 2, 3, 4, 5, 6, 7, 8, 9, ...[...again].filter((one) => one > 9)]));
    expect(delivery.state.cursor).toBe(17);
  });

  it('makes failures that began before it count for nothing [C-12.4]', () => {
    const delivery = new Delivery(8);
    delivery.begin();
    delivery.end(1);
    delivery.endpoint.recover(0, delivery.now);
    delivery.endAll('failed');
    expect(delivery.state).toMatchObject({ failures: 0, nextAtMs: null });
    expect(delivery.begin()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('since a time after events that wait skips none of them: each is delivered [C-12.4]', () => {
    const delivery = new Delivery(12);
    delivery.begin();
    delivery.endAll('failed');
    delivery.endpoint.recover(9, delivery.now);
    delivery.drain();
    expect(new Set(delivery.posted)).toEqual(new Set(Array.from({ length: 12 }, (_, index) => index + 1)));
  });

  it('leaves a disabled webhook disabled until it is enabled [C-12.4]', () => {
    const delivery = new Delivery(3);
    delivery.begin();
    delivery.end(1, 'gone');
    delivery.endAll();
    delivery.endpoint.recover(0, delivery.now);
    expect([delivery.endpoint.status, delivery.begin()]).toEqual(['DISABLED', []]);
    delivery.endpoint.enable(delivery.now);
    expect(delivery.begin()).toEqual([1, 2, 3]);
  });
});
