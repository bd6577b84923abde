/** A flood of publishes over the rate: each is stored once, in order, and confirmed [C-6.4, C-6.5]. */
import { describe, expect } from 'vitest';
import { amqpTest as it } from '#support/bridge-amqp.ts';
import { publishFrames } from '#support/bridge-amqp-frames.ts';
import type { AmqpPeer } from '#support/bridge-amqp-peer.ts';
import { takeAtRate } from '#support/bridge-rated.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

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
    'is stored in order and confirmed once each, if the object stores %s',
    async ([_, rate], { publisher: { peer, link } }) => {
      for (let count = 0; count < FLOOD; count++) peer.write(publishFrames(`${count}`));
      const [taken] = await Promise.all([takeAtRate(link, FLOOD, rate), takeConfirms(peer, FLOOD)]);
      expect(taken.map(({ body }) => Number(body))).toEqual(
        Array.from({ length: FLOOD }, (_, index) => index),
      );
    },
  );
});
