/** What is under way is bounded both ways: publishers are paused, deliveries run on credit (rule 9). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { type Delivery, plainDeliveryBytes } from '../../../protocol/link/vhost.ts';
import {
  deliveryOf,
  type OpenAmqpClient,
  openAmqp,
  openConsumer,
  takeSeqs,
  throughLink,
} from '../../support/bridge-amqp.ts';
import { methodFrame, publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { turns } from '../../support/bridge-signal.ts';

const CREDIT_STEP_BYTES = 128 * 1024;

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

describe('a publisher', () => {
  it('is paused with 128 publishes open [C-6.5], and goes on when some are stored', async () => {
    const client = await openAmqp(edge);
    const { peer, link, stream } = client;
    const one = publishFrames('x');
    peer.write(...Array(LIMIT.openPublishes - 1).fill(one));
    const seqs = await takeSeqs(client, LIMIT.openPublishes - 1);
    expect(stream.isPaused()).toBe(false);
    peer.write(one);
    seqs.push(...(await takeSeqs(client, 1)));
    expect(stream.isPaused()).toBe(true);
    peer.write(...Array(10).fill(one));
    await turns();
    expect(link.received.length).toBe(LIMIT.openPublishes);
    link.send({ kind: 'stored', seqs: seqs.slice(0, 20) });
    await takeSeqs(client, 10);
    expect(stream.isPaused()).toBe(false);
    peer.stream.destroy();
  });

  it('is paused with 8 MiB of bodies open', async () => {
    const client = await openAmqp(edge);
    const { peer, link, stream } = client;
    const one = publishFrames('x'.repeat(262_144));
    for (let count = 0; count < 40; count++) peer.write(one);
    const seqs = await takeSeqs(client, 32);
    await turns();
    expect(stream.isPaused()).toBe(true);
    expect(link.received.length).toBe(32);
    link.send({ kind: 'stored', seqs });
    await takeSeqs(client, 8);
    peer.stream.destroy();
  });

  it('that is paused still gets its confirms, its deliveries and its end', async () => {
    const client = await openConsumer(edge);
    const { peer, link, tag, stream } = client;
    peer.write(...Array(LIMIT.openPublishes).fill(publishFrames('x')));
    await takeSeqs(client, LIMIT.openPublishes);
    expect(stream.isPaused()).toBe(true);
    link.send({ kind: 'deliver', channel: 1, tag, delivery: deliveryOf(1) });
    await peer.takeContent(METHOD.basicDeliver);
    link.close(1012);
    expect(await peer.takeConnectionClose()).toMatch(/^320 /);
    peer.send(METHOD.connectionCloseOk);
    await peer.untilEnded();
  });
});

describe('a client that asks on and on and never reads an answer', () => {
  const MAX_HELD_BYTES = 2 * 1024 * 1024;

  it('is not read on and on', async () => {
    const { peer, stream } = await openAmqp(edge);
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
    peer.stream.destroy();
  });

  it('gets no more messages than it can hold: basic.get runs on credit too', async () => {
    const { peer, link, stream } = await openAmqp(edge);
    peer.stream.pause();
    const delivery = deliveryOf(0, { body: 'x'.repeat(262_144) });
    const get = methodFrame(METHOD.basicGet, { queue: 'vcp.acme.event.alarm', noAck: true }, 1);
    peer.write(...Array<Buffer>(40).fill(get));
    for (let count = 0; count < 40; count++) {
      for (let turn = 0; turn < 50 && link.received.length <= count; turn++) await turns(1);
      const asked = link.received[count];
      if (asked?.kind !== 'get') break;
      link.send({ kind: 'got', seq: asked.seq, messageCount: 1, delivery });
    }
    expect(stream.isPaused()).toBe(true);
    expect(link.received.length * delivery.body.length).toBeLessThan(MAX_HELD_BYTES);
    peer.stream.destroy();
  });
});

describe('credit', () => {
  const delivery = deliveryOf(1, { body: 'x'.repeat(10_000) });
  const perDelivery = plainDeliveryBytes(delivery);

  function deliver({ link }: OpenAmqpClient, tag: string, count: number, one: Delivery = delivery): void {
    for (let index = 0; index < count; index++)
      link.send({ kind: 'deliver', channel: 1, tag, delivery: { ...one, lease: index + 1 } });
  }

  it('is told as the client takes deliveries, in steps, as a sum since the beginning', async () => {
    const client = await openConsumer(edge);
    deliver(client, 'ct', 30);
    const perStep = Math.ceil(CREDIT_STEP_BYTES / perDelivery);
    for (const step of [1, 2]) {
      const { drainedBytes } = await client.link.take('credit');
      expect(drainedBytes).toBeGreaterThanOrEqual(step * CREDIT_STEP_BYTES);
      expect(drainedBytes % perDelivery).toBe(0);
      if (step === 1) expect(drainedBytes).toBe(perStep * perDelivery);
    }
    expect(client.events.deliveredCount).toBe(30);
    client.peer.stream.destroy();
  });

  it('is not told while the client does not read, and is when it does', async () => {
    const client = await openConsumer(edge);
    const { peer, link } = client;
    peer.stream.pause();
    deliver(client, 'ct', 60);
    await turns(50);
    expect(link.received.filter(({ kind }) => kind === 'credit')).toEqual([]);
    peer.stream.resume();
    await link.take('credit');
    peer.stream.destroy();
  });

  it('counts what a cancelled consumer is not given: it goes back', async () => {
    const client = await openConsumer(edge);
    const { link } = client;
    deliver(client, 'gone', 14);
    await link.take('credit');
    const settled = link.received.flatMap((one) => (one.kind === 'settle' ? [one] : []));
    expect(settled.every(({ outcome }) => outcome === 'requeue')).toBe(true);
    expect(settled.flatMap(({ leases }) => leases)).toEqual(
      Array.from({ length: 14 }, (_, index) => index + 1),
    );
    client.peer.stream.destroy();
  });

  it.each([
    ['the client closed', 'client'],
    ['the bridge is closing', 'bridge'],
  ])('counts what comes for a channel that %s: else the window is lost for good', async (_title, closer) => {
    const client = await openConsumer(edge);
    const { peer, link } = client;
    if (closer === 'client') {
      peer.send(METHOD.channelClose, { replyCode: 200, replyText: '', classId: 0, methodId: 0 }, 1);
      await peer.takeMethod(METHOD.channelCloseOk);
    } else {
      peer.send(METHOD.basicAck, { deliveryTag: 99 }, 1);
      await peer.takeChannelClose();
    }
    await link.take('close-channel');
    // Under way when the channel closed, and counted by the object as sent.
    deliver(client, 'ct', 30);
    await throughLink(client);
    await throughLink(client);
    expect(link.received.filter(({ kind }) => kind === 'credit').length).toBeGreaterThan(0);
  });
});
