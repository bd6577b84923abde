/** Heartbeats: sent at half the interval; a client is closed after three missed ones. */
import { describe, expect } from 'vitest';
import { amqpTest as it } from '#support/bridge-amqp.ts';
import { HEARTBEAT } from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';

describe('heartbeats between bridge and client', () => {
  it('the bridge sends one every half interval on an idle connection [C-6.3]', async ({ clock, amqp }) => {
    const { peer } = await amqp.open({ tune: { heartbeat: 2 } });
    for (const expected of [1, 2, 3]) {
      peer.write(HEARTBEAT);
      await clock.pass(1_000);
      expect(peer.heartbeats).toBe(expected);
    }
  });

  it('begin after 30 s if the interval is 60 s', async ({ clock, peer }) => {
    await clock.pass(29_999);
    expect(peer.heartbeats).toBe(0);
    await clock.pass(1);
    expect(peer.heartbeats).toBe(1);
  });

  it('the bridge sends none while it sends other frames', async ({ clock, amqp }) => {
    const { peer } = await amqp.open({ tune: { heartbeat: 2 } });
    for (const channel of [2, 3, 4]) {
      await clock.pass(600);
      await peer.openChannel(channel);
      await clock.pass(400);
    }
    expect(peer.heartbeats).toBe(0);
  });

  it('three missed ones close socket and link, without a close frame', async ({ clock, amqp }) => {
    const { peer, link, events } = await amqp.open({ tune: { heartbeat: 2 } });
    await clock.pass(5_999);
    expect(peer.ended).toBe(false);
    const frames = peer.frames.length;
    await clock.pass(1);
    await peer.untilEnded();
    await link.untilClosed();
    expect(peer.frames.length).toBe(frames);
    expect(events.endedWhy).toEqual(['missed heartbeats']);
    expect(events.endReason).toBe('timeout');
  });

  it.for([
    ['a heartbeat', HEARTBEAT],
    ['half a frame', HEARTBEAT.subarray(0, 1)],
  ] as const)('a client that sends %s in time stays connected', async ([_, bytes], { clock, amqp }) => {
    const { peer, events } = await amqp.open({ tune: { heartbeat: 2 } });
    await clock.pass(5_000);
    peer.write(bytes);
    await turns();
    await clock.pass(5_000);
    expect(events.endedWhy).toEqual([]);
  });

  it('an interval of 0 turns heartbeats off', async ({ clock, amqp }) => {
    const { peer, events } = await amqp.open({ tune: { heartbeat: 0 } });
    await clock.pass(3_600_000);
    expect(peer.heartbeats).toBe(0);
    expect(events.endedWhy).toEqual([]);
  });

  it('the bridge sends none after its connection.close', async ({ clock, amqp }) => {
    const { peer, connection } = await amqp.open({ tune: { heartbeat: 2 } });
    connection.shutdown('shutdown');
    await peer.takeConnectionClose();
    await clock.pass(2_500);
    expect(peer.heartbeats).toBe(0);
    await peer.acceptClose();
  });
});
