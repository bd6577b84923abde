/** Publishes over the rate: held and sent again in order after a delay; emergencies overtake them [C-6.5]. */
import { describe, expect } from 'vitest';
import { amqpTest, type OpenAmqpClient } from '#support/bridge-amqp.ts';
import { BYE, publishFrames } from '#support/bridge-amqp-frames.ts';
import type { AmqpPeer } from '#support/bridge-amqp-peer.ts';
import { takeAtRate } from '#support/bridge-rated.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { startPulse } from '../../../bridge/link.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const EMERGENCY = 'acme.command.emergency';
const WAIT_MS = 1_000;
/** A link gathers frames for this long while an answer is pending. */
const GATHER_MS = 2;

/** The bodies and sequences of the publishes that the object received since the last call. */
function news({ link }: OpenAmqpClient): { bodies: string[]; seqs: number[] } {
  const publishes = link.takePublishes();
  return { bodies: publishes.map(({ body }) => body), seqs: publishes.map(({ seq }) => seq) };
}

function bodiesOf(first: number, last: number): string[] {
  return Array.from({ length: last - first + 1 }, (_, index) => `${first + index}`);
}

function publishAll({ peer }: OpenAmqpClient, first: number, last: number): void {
  peer.write(...bodiesOf(first, last).map((body) => publishFrames(body)));
}

/** `hold` opens a publisher whose publishes, bodies 1 to `count`, the object holds. */
const it = amqpTest.extend('hold', ({ clock, amqp }) => async (count: number, perTurn = 2, ms = WAIT_MS) => {
  const client = await amqp.openPublisher();
  publishAll(client, 1, count);
  await clock.pass(5);
  await client.link.untilBatches(1);
  const { bodies, seqs } = news(client);
  expect(bodies).toEqual(bodiesOf(1, count));
  client.link.send({ kind: 'wait', seqs, ms, count: perTurn });
  await turns(50);
  return { ...client, seqs };
});

describe('held publishes', () => {
  it('are sent again, oldest first, at the rate that the object named', async ({ clock, hold }) => {
    const client = await hold(5);
    await clock.pass(WAIT_MS - 10);
    expect(news(client).bodies).toEqual([]);
    await clock.pass(10 + GATHER_MS);
    expect(news(client)).toEqual({ bodies: ['1', '2'], seqs: client.seqs.slice(0, 2) });
    await clock.pass(WAIT_MS + GATHER_MS);
    expect(news(client)).toEqual({ bodies: ['3', '4'], seqs: client.seqs.slice(2, 4) });
    await clock.pass(WAIT_MS + GATHER_MS);
    expect(news(client)).toEqual({ bodies: ['5'], seqs: client.seqs.slice(4) });
    await clock.pass(10 * WAIT_MS);
    expect(news(client).bodies).toEqual([]);
  });

  it('are confirmed only when the object has stored them', async ({ clock, hold }) => {
    const client = await hold(3);
    await clock.pass(WAIT_MS);
    client.link.send({ kind: 'stored', seqs: news(client).seqs });
    expect(await client.peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 2, multiple: true });
    await clock.pass(WAIT_MS);
    client.link.send({ kind: 'stored', seqs: news(client).seqs });
    expect(await client.peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 3 });
  });

  it('keep their place in the order when the object holds them again', async ({ clock, hold }) => {
    const client = await hold(4);
    await clock.pass(WAIT_MS);
    const { seqs } = news(client);
    client.link.send(
      { kind: 'stored', seqs: seqs.slice(0, 1) },
      { kind: 'wait', seqs: seqs.slice(1), ms: 700, count: 9 },
    );
    await turns(50);
    await clock.pass(WAIT_MS);
    expect(news(client).bodies).toEqual(['2', '3', '4']);
  });

  it('are sent before new publishes', async ({ clock, hold }) => {
    const client = await hold(2, 1);
    client.peer.write(publishFrames('3'), publishFrames('4'));
    await clock.pass(5);
    expect(news(client).bodies).toEqual([]);
    for (const body of bodiesOf(1, 4)) {
      await clock.pass(WAIT_MS);
      const { bodies, seqs } = news(client);
      expect(bodies).toEqual([body]);
      client.link.send({ kind: 'stored', seqs });
      await turns(50);
    }
    client.peer.write(publishFrames('5'));
    await clock.pass(5);
    expect(news(client).bodies).toEqual(['5']);
  });

  it('are overtaken by an emergency, which is confirmed while they wait', async ({ clock, hold }) => {
    const client = await hold(3);
    client.peer.write(publishFrames('4'), publishFrames('stop', { routingKey: EMERGENCY }));
    await clock.pass(5);
    const { bodies, seqs } = news(client);
    expect(bodies).toEqual(['stop']);
    client.link.send({ kind: 'stored', seqs });
    expect(await client.peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 5, multiple: false });
    await clock.pass(WAIT_MS);
    expect(news(client).bodies).toEqual(['1', '2']);
  });

  it('do not end the link, even if they wait for 50 s', async ({ clock, hold }) => {
    const stopPulse = startPulse();
    const client = await hold(1, 1, 60_000);
    for (let seconds = 0; seconds < 50; seconds += 5) await clock.pass(5_000);
    stopPulse();
    expect(client.events.endedWhy).toEqual([]);
    expect(client.link.closedWith).toBeUndefined();
  });
});

describe('a client with held publishes', () => {
  it('is read until 256 publishes wait, and is read again when fewer wait', async ({ clock, hold }) => {
    const client = await hold(LIMIT.openPublishes - 1, 10);
    const { peer, stream, link } = client;
    publishAll(client, LIMIT.openPublishes, 255);
    // A round trip: the bridge has read everything that was sent before.
    await peer.openChannel(2);
    expect(stream.isPaused()).toBe(false);
    publishAll(client, 256, 300);
    await turns(50);
    expect(stream.isPaused()).toBe(true);
    const taken: string[] = [];
    while (taken.length < 300) {
      await clock.pass(WAIT_MS);
      const { bodies, seqs } = news(client);
      expect(bodies.length).toBeLessThanOrEqual(LIMIT.openPublishes);
      taken.push(...bodies);
      link.send({ kind: 'stored', seqs });
      await turns(50);
    }
    expect(taken).toEqual(bodiesOf(1, 300));
    expect(stream.isPaused()).toBe(false);
  });

  it('is not read while 8 MiB of publishes wait', async ({ hold }) => {
    const client = await hold(1, 1);
    const big = publishFrames('x'.repeat(LIMIT.amqpBodyBytes));
    for (let count = 0; count < 40; count++) client.peer.write(big);
    await turns(200);
    expect(client.stream.isPaused()).toBe(true);
    expect(client.events.publishedCount).toBeLessThanOrEqual(34);
  });

  it.for(['connection', 'channel'])(
    'may close its %s: all held publishes still reach the object',
    async (what, { clock, hold }) => {
      const client = await hold(3);
      if (what === 'connection') client.peer.send(METHOD.connectionClose, BYE);
      else client.peer.send(METHOD.channelClose, BYE, 1);
      const taken: string[] = [];
      for (let turn = 0; turn < 4; turn++) {
        await clock.pass(WAIT_MS);
        const { bodies, seqs } = news(client);
        taken.push(...bodies);
        if (seqs.length > 0) client.link.send({ kind: 'stored', seqs });
      }
      expect(taken).toEqual(['1', '2', '3']);
    },
  );

  it('gets close-ok only after all of them are stored, if it closes before the object answers `wait`', async ({
    clock,
    publisher,
  }) => {
    publishAll(publisher, 1, 3);
    publisher.peer.send(METHOD.connectionClose, BYE);
    await clock.pass(5);
    await publisher.link.untilBatches(1);
    const { seqs } = news(publisher);
    publisher.link.send({ kind: 'wait', seqs, ms: WAIT_MS, count: 3 });
    await clock.pass(WAIT_MS + GATHER_MS);
    const again = news(publisher);
    expect(again.bodies).toEqual(bodiesOf(1, 3));
    publisher.link.send({ kind: 'stored', seqs: again.seqs });
    await publisher.peer.takeMethod(METHOD.connectionCloseOk);
    await publisher.link.untilClosed();
  });

  it('may disconnect: no timer of its publishes remains', async ({ clock, hold }) => {
    const { timers } = clock;
    const client = await hold(3);
    client.peer.stream.destroy();
    await client.link.untilClosed();
    await turns();
    expect(clock.timers).toBe(timers);
  });

  it('gets no confirms for them when the object ends the link', async ({ clock, hold }) => {
    const client = await hold(3);
    client.link.send({ kind: 'goodbye', code: 4003, reason: 'revoked' });
    expect(await client.peer.takeConnectionClose()).toMatch(/^320 .*revoked/);
    await clock.pass(5 * WAIT_MS);
    expect(client.peer.countOf(METHOD.basicAck)).toBe(0);
  });
});

const FLOOD = 1_500;

/** Takes confirms until all tags up to `last` have one. Throws for a nack or a second confirm. */
async function takeConfirms(peer: AmqpPeer, last: number): Promise<void> {
  const open = new Set(Array.from({ length: last }, (_, index) => index + 1));
  while (open.size > 0) {
    const { deliveryTag, multiple } = await peer.takeMethod(METHOD.basicAck);
    const tag = Number(deliveryTag);
    if (!open.delete(tag)) throw new Error(`${tag} was confirmed twice`);
    if (multiple) for (const one of open) if (one < tag) open.delete(one);
  }
}

describe('a flood of publishes', () => {
  it.for([
    ['200 at first and then 3 per answer', { burst: 200, perMessage: 3, ms: 1 }],
    ['one per answer', { burst: 1, perMessage: 1, ms: 1 }],
    ['200 at first and then 60 per answer', { burst: 200, perMessage: 60, ms: 2 }],
  ] as const)(
    'is stored in order and confirmed once each, if the object stores %s [C-6.4, C-6.5]',
    async ([_, rate], { publisher: { peer, link } }) => {
      for (const body of bodiesOf(1, FLOOD)) peer.write(publishFrames(body));
      const [taken] = await Promise.all([takeAtRate(link, FLOOD, rate), takeConfirms(peer, FLOOD)]);
      expect(taken.map(({ body }) => body)).toEqual(bodiesOf(1, FLOOD));
    },
  );
});
