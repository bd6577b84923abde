/** Limits in both directions: publishers are paused, deliveries need credit (rule 9). */
import { describe, expect } from 'vitest';
import {
  deliver,
  deliveryOf,
  amqpTest as it,
  type OpenAmqpClient,
  QUEUE,
  takeSeqs,
  throughLink,
} from '#support/bridge-amqp.ts';
import { BYE, methodFrame, publishFrames } from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const CREDIT_STEP_BYTES = 128 * 1024;

describe('a publisher', () => {
  it('is paused while 128 publishes are unanswered [C-6.5]', async ({ client: { peer, link, stream } }) => {
    const one = publishFrames('x');
    peer.write(...Array(LIMIT.openPublishes - 1).fill(one));
    const seqs = await takeSeqs(link, LIMIT.openPublishes - 1);
    expect(stream.isPaused()).toBe(false);
    peer.write(one);
    seqs.push(...(await takeSeqs(link, 1)));
    expect(stream.isPaused()).toBe(true);
    peer.write(...Array(10).fill(one));
    await turns();
    expect(link.received.length).toBe(LIMIT.openPublishes);
    link.send({ kind: 'stored', seqs: seqs.slice(0, 20) });
    await takeSeqs(link, 10);
    expect(stream.isPaused()).toBe(false);
  });

  it('is paused while 8 MiB of bodies are unanswered', async ({ client: { peer, link, stream } }) => {
    const one = publishFrames('x'.repeat(262_144));
    for (let count = 0; count < 40; count++) peer.write(one);
    const seqs = await takeSeqs(link, 32);
    await turns();
    expect(stream.isPaused()).toBe(true);
    expect(link.received.length).toBe(32);
    link.send({ kind: 'stored', seqs });
    await takeSeqs(link, 8);
  });

  it('gets deliveries and connection.close while paused', async ({ consumer: { peer, link, stream } }) => {
    peer.write(...Array(LIMIT.openPublishes).fill(publishFrames('x')));
    await takeSeqs(link, LIMIT.openPublishes);
    expect(stream.isPaused()).toBe(true);
    link.send(deliver(1));
    await peer.takeContent(METHOD.basicDeliver);
    link.close(1012);
    expect(await peer.takeConnectionClose()).toMatch(/^320 /);
    await peer.acceptClose();
  });
});

describe('a client that sends requests and reads no answer', () => {
  const MAX_HELD_BYTES = 2 * 1024 * 1024;

  it('is not read any more before 2 MiB of unread answers wait', async ({ client: { peer, stream } }) => {
    peer.stream.pause();
    const count = 10_000;
    const requests = Buffer.concat(Array(count).fill(methodFrame(METHOD.accessRequest, { realm: '/' }, 1)));
    const answerBytes = methodFrame(METHOD.accessRequestOk, { ticket: 1 }, 1).length;
    let round = 0;
    for (; round < 50 && !stream.isPaused() && !stream.destroyed; round++) {
      peer.write(requests);
      await turns(5);
    }
    expect(stream.isPaused()).toBe(true);
    expect(round * count * answerBytes).toBeLessThan(MAX_HELD_BYTES);
  });

  it('is not read any more before the unread messages of its basic.gets are 2 MiB', async ({
    client: { peer, link, stream },
  }) => {
    peer.stream.pause();
    const delivery = deliveryOf(0, { body: 'x'.repeat(262_144) });
    const get = methodFrame(METHOD.basicGet, { queue: QUEUE, noAck: true }, 1);
    peer.write(...Array<Buffer>(40).fill(get));
    for (let count = 0; count < 40; count++) {
      for (let turn = 0; turn < 50 && link.received.length <= count; turn++) await turns(1);
      const asked = link.received[count];
      if (asked?.kind !== 'get') break;
      link.send({ kind: 'got', seq: asked.seq, messageCount: 1, delivery });
    }
    expect(stream.isPaused()).toBe(true);
    expect(link.received.length * delivery.body.length).toBeLessThan(MAX_HELD_BYTES);
  });
});

describe('the credit that the bridge sends to an object', () => {
  const body = 'x'.repeat(10_000);
  const perDelivery = deliveryOf(1, { body }).bytes;

  function deliverAll({ link }: OpenAmqpClient, tag: string, count: number): void {
    for (let lease = 1; lease <= count; lease++) link.send(deliver(lease, { body }, tag));
  }

  it('is sent each 128 KiB, with the sum of all delivered bytes', async ({ consumer }) => {
    deliverAll(consumer, 'ct', 30);
    const perStep = Math.ceil(CREDIT_STEP_BYTES / perDelivery);
    for (const step of [1, 2]) {
      const { drainedBytes } = await consumer.link.take('credit');
      expect(drainedBytes).toBeGreaterThanOrEqual(step * CREDIT_STEP_BYTES);
      expect(drainedBytes % perDelivery).toBe(0);
      if (step === 1) expect(drainedBytes).toBe(perStep * perDelivery);
    }
    expect(consumer.events.deliveredCount).toBe(30);
  });

  it('is not sent while the client does not read', async ({ consumer }) => {
    const { peer, link } = consumer;
    peer.stream.pause();
    deliverAll(consumer, 'ct', 60);
    await turns(50);
    expect(link.received.filter(({ kind }) => kind === 'credit')).toEqual([]);
    peer.stream.resume();
    await link.take('credit');
  });

  it('includes deliveries that are requeued because their consumer does not exist', async ({ consumer }) => {
    const { link } = consumer;
    deliverAll(consumer, 'gone', 14);
    await link.take('credit');
    const settled = link.received.flatMap((one) => (one.kind === 'settle' ? [one] : []));
    expect(settled.every(({ outcome }) => outcome === 'requeue')).toBe(true);
    expect(settled.flatMap(({ leases }) => leases)).toEqual(
      Array.from({ length: 14 }, (_, index) => index + 1),
    );
  });

  it.for([
    ['the client closed', 'client'],
    ['the bridge is closing', 'bridge'],
  ] as const)('includes deliveries to a channel that %s', async ([_, closer], { consumer }) => {
    const { peer, link } = consumer;
    if (closer === 'client') {
      await peer.request(METHOD.channelClose, BYE, 1);
    } else {
      peer.send(METHOD.basicAck, { deliveryTag: 99 }, 1);
      await peer.takeChannelClose();
    }
    await link.take('close-channel');
    // The object counts deliveries that it sent before it knew of the close.
    deliverAll(consumer, 'ct', 30);
    await throughLink(consumer);
    await throughLink(consumer);
    expect(link.received.filter(({ kind }) => kind === 'credit').length).toBeGreaterThan(0);
  });
});
