/** The uplink of a connection: which frames carry settlements, and how long they wait. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Channel } from '../../../bridge/amqp/channel.ts';
import type { Content } from '../../../bridge/amqp/content.ts';
import { type SettleOutcome, Uplink } from '../../../bridge/amqp/uplink.ts';
import type { VhostLinkUp } from '../../../protocol/link/vhost.ts';

const PUBLISH = { exchange: 'vcp', routingKey: 'x', properties: {}, body: Buffer.from('{}') } as Content;

/** An uplink whose link records what it is given; `endTurn` does what the connection does at the end of a turn. */
function openUplink() {
  const sent: { frame: VhostLinkUp; isUrgent: boolean | undefined }[] = [];
  const link = {
    nextSeq: () => 1,
    send: (frame: VhostLinkUp, _awaitsAnswer?: number, isUrgent?: boolean) => sent.push({ frame, isUrgent }),
    close: () => {},
  };
  let isScheduled = false;
  const schedule = () => {
    isScheduled = true;
  };
  const uplink = new Uplink(link, schedule, { answered: () => {} });
  const endTurn = () => {
    if (isScheduled) uplink.endTurn();
    isScheduled = false;
  };
  const settled = () => sent.flatMap(({ frame }) => (frame.kind === 'settle' ? [frame.leases] : []));
  return { uplink, sent, schedule, endTurn, settled };
}

describe('settlements', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('are sent in frames that name each of 200 000 leases once, in order [C-6.4]', () => {
    const { uplink, sent, settled } = openUplink();
    const leases = Array.from({ length: 200_000 }, (_none, index) => index);
    uplink.settle('ack', leases);
    uplink.flush();
    expect(sent.length).toBeGreaterThan(1);
    expect(settled().flat()).toEqual(leases);
  });

  it('are sent at the end of the turn if they may not wait', () => {
    const { uplink, settled, endTurn } = openUplink();
    uplink.settle('ack', [1]);
    uplink.settle('ack', [2]);
    expect(settled()).toEqual([]);
    endTurn();
    expect(settled()).toEqual([[1, 2]]);
  });

  it('are sent within five milliseconds if they may wait, whatever else ends a turn', () => {
    const { uplink, settled, schedule, endTurn } = openUplink();
    uplink.settle('ack', [1], true);
    schedule();
    endTurn();
    vi.advanceTimersByTime(4);
    uplink.settle('ack', [2], true);
    expect(settled()).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(settled()).toEqual([[1, 2]]);
    uplink.settle('ack', [3], true);
    vi.advanceTimersByTime(5);
    expect(settled()).toEqual([[1, 2], [3]]);
  });

  it('are urgent also before a publish if they may not wait', () => {
    const { uplink, sent } = openUplink();
    uplink.settle('ack', [1]);
    uplink.publish(PUBLISH, () => {});
    expect(sent[0]).toMatchObject({ frame: { kind: 'settle', leases: [1] }, isUrgent: true });
  });

  it('travel with the next publish, before it, if they wait, and neither hurries the other', () => {
    const { uplink, sent } = openUplink();
    uplink.settle('ack', [1], true);
    uplink.publish(PUBLISH, () => {});
    expect(sent).toMatchObject([
      { frame: { kind: 'settle', leases: [1] }, isUrgent: false },
      { frame: { kind: 'publish' } },
    ]);
    vi.advanceTimersByTime(100);
    expect(sent).toHaveLength(2);
  });

  it.each<[string, (uplink: Uplink) => void]>([
    [
      'a request',
      (uplink) =>
        uplink.request(
          (seq) => ({ kind: 'recover', seq, channel: 1 }),
          () => {},
        ),
    ],
    ['the end of a channel', (uplink) => uplink.send({ kind: 'close-channel', channel: 1 })],
    ['a settlement of another kind', (uplink) => uplink.settle('requeue', [9])],
  ])('are sent before %s if they wait', (_what, next) => {
    const { uplink, sent } = openUplink();
    uplink.settle('ack', [1], true);
    next(uplink);
    expect(sent[0]).toMatchObject({ frame: { kind: 'settle', outcome: 'ack', leases: [1] } });
  });

  it('leave with one that may not wait, at the end of its turn', () => {
    const { uplink, settled, endTurn } = openUplink();
    uplink.settle('ack', [1], true);
    uplink.settle('ack', [2]);
    uplink.settle('ack', [3], true);
    endTurn();
    expect(settled()).toEqual([[1, 2, 3]]);
  });
});

describe('an acknowledgement', () => {
  /** Settles the first `acked` of `held` deliveries, one by one; returns which of them may wait. */
  function settle(
    prefetches: readonly number[],
    held: number,
    acked: number,
    outcome: SettleOutcome = 'ack',
    collected = 0,
  ) {
    const waits: boolean[] = [];
    const uplink = {
      collected,
      send: () => {},
      settle: (_outcome: SettleOutcome, _leases: readonly number[], mayWait: boolean) => {
        waits.push(mayWait);
        uplink.collected = mayWait ? uplink.collected + 1 : 0;
      },
    };
    const channel = new Channel(1, {} as never, uplink as unknown as Uplink);
    for (const [index, count] of prefetches.entries()) channel.setPrefetch(count, index % 2 === 1);
    for (let lease = 1; lease <= held; lease++) channel.unacked.add(lease);
    for (let tag = 1; tag <= acked; tag++) channel.settle(outcome, channel.unacked.take(tag, false) ?? []);
    return waits;
  }

  it.each<[string, number[], number, number, boolean[]]>([
    ['waits without a prefetch', [], 3, 2, [true, true]],
    ['waits while less than half of a large prefetch is in use', [100], 49, 2, [true, true]],
    ['does not wait while half of the prefetch is in use', [100], 51, 3, [false, false, true]],
    ['never waits with a small prefetch', [49], 1, 1, [false]],
    ['keeps to the smallest prefetch that was set for consumers', [100, 0, 2, 0, 100], 1, 1, [false]],
    ['keeps to the prefetch of all consumers together', [100, 2], 1, 1, [false]],
  ])('%s', (_what, prefetches, held, acked, waits) => {
    expect(settle(prefetches, held, acked)).toEqual(waits);
  });

  it('does not wait if those that wait already use half of the prefetch', () => {
    expect(settle([100], 30, 15, 'ack', 10)).not.toContain(false);
    expect(settle([100], 30, 15, 'ack', 40).slice(0, 1)).toEqual([false]);
  });

  it('never waits if it requeues or discards', () => {
    expect([...settle([], 1, 1, 'requeue'), ...settle([], 1, 1, 'discard')]).toEqual([false, false]);
  });
});
