/** Heartbeats: sent at half the interval, and the client that sends none is gone after three. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { openAmqp } from '../../support/bridge-amqp.ts';
import { frame } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const HEARTBEAT = frame(8, 0, Buffer.alloc(0));

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(() => {
  vi.useFakeTimers(CLOCK);
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await turns();
}

describe('heartbeats', () => {
  it('of an idle connection go out every half interval [C-6.3]', async () => {
    const { peer } = await openAmqp(edge, { tune: { heartbeat: 2 } });
    for (const expected of [1, 2, 3]) {
      peer.write(HEARTBEAT);
      await pass(1_000);
      expect(peer.heartbeats).toBe(expected);
    }
    peer.stream.destroy();
  });

  it('of 60 s go out every 30 s', async () => {
    const { peer } = await openAmqp(edge);
    await pass(29_999);
    expect(peer.heartbeats).toBe(0);
    await pass(1);
    expect(peer.heartbeats).toBe(1);
    peer.stream.destroy();
  });

  it('are left out where other frames went', async () => {
    const { peer } = await openAmqp(edge, { tune: { heartbeat: 2 } });
    for (const channel of [2, 3, 4]) {
      await pass(600);
      await peer.openChannel(channel);
      await pass(400);
    }
    expect(peer.heartbeats).toBe(0);
    peer.stream.destroy();
  });

  it('that stay away for three intervals end the connection without a frame, and its link', async () => {
    const { peer, link, events } = await openAmqp(edge, { tune: { heartbeat: 2 } });
    await pass(5_999);
    expect(peer.ended).toBe(false);
    const frames = peer.frames.length;
    await pass(1);
    await peer.untilEnded();
    await link.untilClosed();
    expect(peer.frames.length).toBe(frames);
    expect(events.closedWhy).toEqual(['missed heartbeats']);
    expect(events.endReason).toBe('timeout');
  });

  it.each([
    ['heartbeats', HEARTBEAT],
    ['half a frame', HEARTBEAT.subarray(0, 1)],
  ])('may be anything that a client sends: %s keep it', async (_title, bytes) => {
    const { peer, events } = await openAmqp(edge, { tune: { heartbeat: 2 } });
    await pass(5_000);
    peer.write(bytes);
    await turns();
    await pass(5_000);
    expect(events.closedWhy).toEqual([]);
    peer.stream.destroy();
  });

  it('tuned to 0 are neither sent nor missed', async () => {
    const { peer, events } = await openAmqp(edge, { tune: { heartbeat: 0 } });
    await pass(3_600_000);
    expect(peer.heartbeats).toBe(0);
    expect(events.closedWhy).toEqual([]);
    peer.stream.destroy();
  });

  it('end with the connection', async () => {
    const { peer, connection } = await openAmqp(edge, { tune: { heartbeat: 2 } });
    connection.shutdown('shutdown');
    await peer.takeConnectionClose();
    await pass(2_500);
    expect(peer.heartbeats).toBe(0);
    peer.send(METHOD.connectionCloseOk);
    await peer.untilEnded();
  });
});
