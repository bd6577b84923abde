/** A login that the edge does not decide, or not in time: trouble is nobody's fault (rule 7), and waiting has an end. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { VhostDialResult } from '../../../bridge/amqp/handshake.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { connectAmqp, dialEdge, openAmqp } from '../../support/bridge-amqp.ts';
import { PROTOCOL_HEADER } from '../../support/bridge-amqp-frames.ts';
import { type Answer, envelope, TestEdge } from '../../support/bridge-edge.ts';
import { CLOCK, Signal, turns } from '../../support/bridge-signal.ts';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(() => {
  edge.reset();
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

describe('trouble with the edge', () => {
  it.each<[string, Answer]>([
    ['500', envelope('INTERNAL_SERVER_ERROR')],
    ['503', envelope('SERVICE_UNAVAILABLE')],
    ['429', envelope('TOO_MANY_REQUESTS')],
    ['404', envelope('NOT_FOUND')],
    ['a firewall’s HTML 403', { status: 403, body: '<html>blocked</html>', contentType: 'text/html' }],
  ])('(%s) closes a login with 320, never 403 [C-6.3]', async (_title, answer) => {
    edge.answer = () => answer;
    const { peer } = connectAmqp(dialEdge(edge));
    peer.write(PROTOCOL_HEADER);
    peer.startOk();
    await peer.takeMethod(METHOD.connectionStart);
    expect(await peer.takeConnectionClose()).toBe(
      '320 CONNECTION_FORCED - the service is not available, try again [0/0]',
    );
  });

  it('(nobody there) closes a login with 320', async () => {
    const gone = await TestEdge.start();
    const config = gone.forBridge;
    await gone.stop();
    const client = connectAmqp(dialEdge({ forBridge: config } as TestEdge));
    client.peer.write(PROTOCOL_HEADER);
    await client.peer.takeMethod(METHOD.connectionStart);
    client.peer.startOk();
    expect(await client.peer.takeConnectionClose()).toMatch(/^320 /);
  });
});

describe('a login that is under way', () => {
  /** A dial that is answered by hand. */
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

  it('ends with the handshake time of 10 s, without a frame [C-6.3]', async () => {
    vi.useFakeTimers(CLOCK);
    const { dial, answered } = pendingDial();
    const { peer, events } = connectAmqp(dial);
    peer.write(PROTOCOL_HEADER);
    peer.startOk();
    await answered();
    await vi.advanceTimersByTimeAsync(9_999);
    expect(events.closedWhy).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await peer.untilEnded();
    expect(peer.frames.length).toBe(1);
    expect(events.closedWhy).toEqual(['handshake timeout']);
  });

  it('gives back the link that comes after its client has gone', async () => {
    const { dial, answered } = pendingDial();
    const { peer } = connectAmqp(dial);
    peer.write(PROTOCOL_HEADER);
    peer.startOk();
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

  it('reads no more than it can hold of a client that sends on', async () => {
    const { dial, answered } = pendingDial();
    const { peer, stream } = connectAmqp(dial);
    peer.write(PROTOCOL_HEADER);
    peer.startOk();
    await answered();
    const heartbeats = Buffer.concat(Array(8_000).fill(Buffer.from([8, 0, 0, 0, 0, 0, 0, 0xce])));
    for (let chunk = 0; chunk < 16; chunk++) peer.write(heartbeats);
    await turns(100);
    expect(stream.destroyed || stream.isPaused()).toBe(true);
  });
});

describe('the handshake time', () => {
  it.each([
    ['nothing', Buffer.alloc(0)],
    ['half a header', PROTOCOL_HEADER.subarray(0, 4)],
    ['the header alone', PROTOCOL_HEADER],
    ['half a frame', Buffer.concat([PROTOCOL_HEADER, Buffer.from([1, 0, 0, 0, 0])])],
  ])('of 10 s ends a client that has sent %s, without a frame [C-6.3]', async (_title, bytes) => {
    vi.useFakeTimers(CLOCK);
    const { peer, events } = connectAmqp(dialEdge(edge));
    peer.write(bytes);
    await turns();
    await vi.advanceTimersByTimeAsync(9_999);
    expect(events.closedWhy).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await peer.untilEnded();
    expect(events.closedWhy).toEqual(['handshake timeout']);
    expect(peer.frames.length).toBeLessThanOrEqual(1);
  });

  it('of 10 s is over once the connection is open', async () => {
    vi.useFakeTimers(CLOCK);
    const { peer, events } = await openAmqp(edge, { tune: { heartbeat: 0 } });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(events.closedWhy).toEqual([]);
    peer.stream.destroy();
  });
});
