/** A login that the edge does not decide, or not in time: a temporary failure, not a rejection (rule 7). */
import { describe, expect } from 'vitest';
import { dialEdge, amqpTest as it } from '#support/bridge-amqp.ts';
import { HEARTBEAT, PROTOCOL_HEADER } from '#support/bridge-amqp-frames.ts';
import { TestEdge, UNDECIDED } from '#support/bridge-edge.ts';
import { Signal, turns } from '#support/bridge-signal.ts';
import type { VhostDialResult } from '../../../bridge/amqp/handshake.ts';

describe('a login that the edge does not decide', () => {
  it.for(UNDECIDED)(
    'is closed with 320, not 403, if the edge answers %s [C-6.3]',
    async ([_, answer], { edge, amqp }) => {
      edge.answer = () => answer;
      const { peer } = await amqp.logIn();
      expect(await peer.takeConnectionClose()).toBe(
        '320 CONNECTION_FORCED - the service is not available, try again [0/0]',
      );
    },
  );

  it('is closed with 320 if the edge is not running', async ({ amqp }) => {
    const gone = await TestEdge.start();
    const { forBridge } = gone;
    await gone.stop();
    const { peer } = await amqp.logIn({}, dialEdge({ forBridge }));
    expect(await peer.takeConnectionClose()).toMatch(/^320 /);
  });
});

describe('a login while the edge has not answered', () => {
  /** A dial that the test answers. */
  function pendingDial() {
    const signal = new Signal();
    let answer: ((result: VhostDialResult) => void) | undefined;
    const dial = () =>
      new Promise<VhostDialResult>((resolve) => {
        answer = resolve;
        signal.changed();
      });
    return { dial, answered: () => signal.until(() => answer) };
  }

  it('ends after 10 s: the socket closes without a close frame [C-6.3]', async ({ clock, amqp }) => {
    const { dial, answered } = pendingDial();
    const { peer, events } = await amqp.logIn({}, dial);
    await answered();
    await clock.pass(9_999);
    expect(events.endedWhy).toEqual([]);
    await clock.pass(1);
    await peer.untilEnded();
    expect(peer.frames.length).toBe(1);
    expect(events.endedWhy).toEqual(['handshake timeout']);
  });

  it('if its client has disconnected, the link is closed as soon as it opens', async ({ edge, amqp }) => {
    const { dial, answered } = pendingDial();
    const { peer } = await amqp.logIn({}, dial);
    const answer = await answered();
    peer.stream.destroy();
    await turns();
    const [accepted, link] = await Promise.all([
      dialEdge(edge)({ username: 'acme', password: 'key', probe: '' }),
      edge.vhostLink(),
    ]);
    answer(accepted);
    await link.untilClosed();
  });

  it('the bridge stops reading from a client that keeps sending', async ({ amqp }) => {
    const { dial, answered } = pendingDial();
    const { peer, stream } = await amqp.logIn({}, dial);
    await answered();
    const heartbeats = Buffer.concat(Array(8_000).fill(HEARTBEAT));
    for (let chunk = 0; chunk < 16; chunk++) peer.write(heartbeats);
    await turns(100);
    expect(stream.destroyed || stream.isPaused()).toBe(true);
  });
});

describe('the handshake timeout', () => {
  it.for([
    ['nothing', Buffer.alloc(0)],
    ['half a header', PROTOCOL_HEADER.subarray(0, 4)],
    ['only the header', PROTOCOL_HEADER],
    ['half a frame', Buffer.concat([PROTOCOL_HEADER, Buffer.from([1, 0, 0, 0, 0])])],
  ] as const)(
    'after 10 s closes the socket of a client that sends %s, without a close frame [C-6.3]',
    async ([_, bytes], { clock, amqp }) => {
      const { peer, events } = amqp.connect();
      peer.write(bytes);
      await turns();
      await clock.pass(9_999);
      expect(events.endedWhy).toEqual([]);
      await clock.pass(1);
      await peer.untilEnded();
      expect(events.endedWhy).toEqual(['handshake timeout']);
      expect(peer.frames.length).toBeLessThanOrEqual(1);
    },
  );

  it('ends when the connection is open', async ({ clock, amqp }) => {
    const { events } = await amqp.open({ tune: { heartbeat: 0 } });
    await clock.pass(60_000);
    expect(events.endedWhy).toEqual([]);
  });
});
