/** Publishes over the rate: kept, sent again in their order when the object said, emergencies before them [C-6.5]. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { startPulse } from '../../../bridge/link.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { type OpenAmqpClient, openPublisher } from '../../support/bridge-amqp.ts';
import { publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const EMERGENCY = 'acme.command.emergency';
const WAIT_MS = 1_000;
/** A link gathers for this long behind a frame without an answer. */
const GATHER_MS = 2;

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
  await turns();
  await vi.advanceTimersByTimeAsync(ms);
  await turns(50);
}

/** The bodies of the publishes that reached the object since it was last asked, with their sequences. */
function news({ link }: OpenAmqpClient): { bodies: string[]; seqs: number[] } {
  const publishes = link.batches
    .splice(0)
    .flat()
    .filter((one) => one.kind === 'publish');
  return { bodies: publishes.map(({ body }) => body), seqs: publishes.map(({ seq }) => seq) };
}

/** The same, once some have come after this time. */
async function newsAfter(client: OpenAmqpClient, ms: number): Promise<ReturnType<typeof news>> {
  await pass(ms);
  await client.link.untilBatches(1);
  return news(client);
}

function bodiesOf(first: number, last: number): string[] {
  return Array.from({ length: last - first + 1 }, (_, index) => `${first + index}`);
}

/** A publisher whose publishes, bodies 1 to `count`, the object lets wait. */
async function heldPublisher(
  count: number,
  perTurn = 2,
  ms = WAIT_MS,
): Promise<OpenAmqpClient & { seqs: number[] }> {
  const client = await openPublisher(edge);
  client.peer.write(...bodiesOf(1, count).map((body) => publishFrames(body)));
  const { bodies, seqs } = await newsAfter(client, 5);
  expect(bodies).toEqual(bodiesOf(1, count));
  client.link.send({ kind: 'wait', seqs, ms, count: perTurn });
  await turns(50);
  return { ...client, seqs };
}

describe('publishes that are to wait', () => {
  it('come again after their time, oldest first, as many as were said, with their sequences', async () => {
    const client = await heldPublisher(5);
    await pass(WAIT_MS - 10);
    expect(news(client).bodies).toEqual([]);
    await pass(10 + GATHER_MS);
    expect(news(client)).toEqual({ bodies: ['1', '2'], seqs: client.seqs.slice(0, 2) });
    await pass(WAIT_MS + GATHER_MS);
    expect(news(client)).toEqual({ bodies: ['3', '4'], seqs: client.seqs.slice(2, 4) });
    await pass(WAIT_MS + GATHER_MS);
    expect(news(client)).toEqual({ bodies: ['5'], seqs: client.seqs.slice(4) });
    await pass(10 * WAIT_MS);
    expect(news(client).bodies).toEqual([]);
    client.peer.stream.destroy();
  });

  it('are confirmed when they are stored, and never before', async () => {
    const client = await heldPublisher(3);
    await pass(WAIT_MS);
    client.link.send({ kind: 'stored', seqs: news(client).seqs });
    expect(await client.peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 2, multiple: true });
    await pass(WAIT_MS);
    client.link.send({ kind: 'stored', seqs: news(client).seqs });
    expect(await client.peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 3 });
    client.peer.stream.destroy();
  });

  it('and are to wait again stand before those behind them', async () => {
    const client = await heldPublisher(4);
    await pass(WAIT_MS);
    const { seqs } = news(client);
    client.link.send(
      { kind: 'stored', seqs: seqs.slice(0, 1) },
      { kind: 'wait', seqs: seqs.slice(1), ms: 700, count: 9 },
    );
    await turns(50);
    await pass(WAIT_MS);
    expect(news(client).bodies).toEqual(['2', '3', '4']);
    client.peer.stream.destroy();
  });

  it('have those that the client sends meanwhile behind them', async () => {
    const client = await heldPublisher(2, 1);
    client.peer.write(publishFrames('3'), publishFrames('4'));
    await pass(5);
    expect(news(client).bodies).toEqual([]);
    for (const body of bodiesOf(1, 4)) {
      await pass(WAIT_MS);
      const { bodies, seqs } = news(client);
      expect(bodies).toEqual([body]);
      client.link.send({ kind: 'stored', seqs });
      await turns(50);
    }
    client.peer.write(publishFrames('5'));
    await pass(5);
    expect(news(client).bodies).toEqual(['5']);
    client.peer.stream.destroy();
  });

  it('are overtaken by an emergency, which is confirmed at once', async () => {
    const client = await heldPublisher(3);
    client.peer.write(publishFrames('4'), publishFrames('stop', { routingKey: EMERGENCY }));
    await pass(5);
    const { bodies, seqs } = news(client);
    expect(bodies).toEqual(['stop']);
    client.link.send({ kind: 'stored', seqs });
    expect(await client.peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 5, multiple: false });
    await pass(WAIT_MS);
    expect(news(client).bodies).toEqual(['1', '2']);
    client.peer.stream.destroy();
  });

  it('are no reason to think the link lost, however long they wait', async () => {
    const stopPulse = startPulse();
    const client = await heldPublisher(1, 1, 60_000);
    for (let seconds = 0; seconds < 50; seconds += 5) await pass(5_000);
    stopPulse();
    expect(client.events.closedWhy).toEqual([]);
    expect(client.link.closedWith).toBeUndefined();
    client.peer.stream.destroy();
  });
});

describe('a client with publishes that wait', () => {
  /** Once to the bridge and back: all that was sent before has been read. */
  async function throughBridge({ peer }: OpenAmqpClient, channel: number): Promise<void> {
    await peer.openChannel(channel);
  }

  it('is read up to 256 of them, and again when fewer wait', async () => {
    const client = await heldPublisher(LIMIT.openPublishes - 1, 10);
    const { peer, stream, link } = client;
    peer.write(...bodiesOf(LIMIT.openPublishes, 255).map((body) => publishFrames(body)));
    await throughBridge(client, 2);
    expect(stream.isPaused()).toBe(false);
    peer.write(publishFrames('256'), ...bodiesOf(257, 300).map((body) => publishFrames(body)));
    await turns(50);
    expect(stream.isPaused()).toBe(true);
    const taken: string[] = [];
    while (taken.length < 300) {
      await pass(WAIT_MS);
      const { bodies, seqs } = news(client);
      expect(bodies.length).toBeLessThanOrEqual(LIMIT.openPublishes);
      taken.push(...bodies);
      link.send({ kind: 'stored', seqs });
      await turns(50);
    }
    expect(taken).toEqual(bodiesOf(1, 300));
    expect(stream.isPaused()).toBe(false);
    peer.stream.destroy();
  });

  it('is read no further than 8 MiB of them', async () => {
    const client = await heldPublisher(1, 1);
    const big = publishFrames('x'.repeat(LIMIT.amqpBodyBytes));
    for (let count = 0; count < 40; count++) client.peer.write(big);
    await turns(200);
    expect(client.stream.isPaused()).toBe(true);
    expect(client.events.publishedCount).toBeLessThanOrEqual(34);
    client.peer.stream.destroy();
  });

  it.each(['connection', 'channel'])('and closes its %s loses none of them', async (what) => {
    const client = await heldPublisher(3);
    const bye = { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 };
    if (what === 'connection') client.peer.send(METHOD.connectionClose, bye);
    else client.peer.send(METHOD.channelClose, bye, 1);
    const taken: string[] = [];
    for (let turn = 0; turn < 4; turn++) {
      await pass(WAIT_MS);
      const { bodies, seqs } = news(client);
      taken.push(...bodies);
      if (seqs.length > 0) client.link.send({ kind: 'stored', seqs });
    }
    expect(taken).toEqual(['1', '2', '3']);
    client.peer.stream.destroy();
  });

  it('and closes before its object has said that they are to wait loses none of them', async () => {
    const client = await openPublisher(edge);
    client.peer.write(...bodiesOf(1, 3).map((body) => publishFrames(body)));
    client.peer.send(METHOD.connectionClose, { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 });
    const { seqs } = await newsAfter(client, 5);
    client.link.send({ kind: 'wait', seqs, ms: WAIT_MS, count: 3 });
    await pass(WAIT_MS + GATHER_MS);
    const again = news(client);
    expect(again.bodies).toEqual(bodiesOf(1, 3));
    client.link.send({ kind: 'stored', seqs: again.seqs });
    await client.peer.takeMethod(METHOD.connectionCloseOk);
    await client.link.untilClosed();
  });

  it('and goes leaves no timer behind', async () => {
    const timers = vi.getTimerCount();
    const client = await heldPublisher(3);
    client.peer.stream.destroy();
    await client.link.untilClosed();
    await turns();
    expect(vi.getTimerCount()).toBe(timers);
  });

  it('is told of its link’s end, and none of them is confirmed', async () => {
    const client = await heldPublisher(3);
    client.link.send({ kind: 'goodbye', code: 4003, reason: 'revoked' });
    expect(await client.peer.takeConnectionClose()).toMatch(/^320 .*revoked/);
    await pass(5 * WAIT_MS);
    expect(client.peer.frames.some((one) => one.type === 'method' && one.method === METHOD.basicAck)).toBe(
      false,
    );
  });
});
