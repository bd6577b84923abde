/** basic.publish: the frame that reaches the object, and the answer to the publisher. */
import { describe, expect } from 'vitest';
import { amqpTest as it, reject, takeSeqs, throughLink } from '#support/bridge-amqp.ts';
import { BYE, propertyBytes, publishFrames } from '#support/bridge-amqp-frames.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';

const REFUSED = {
  kind: 'refused',
  severity: 'channel',
  code: 403,
  text: "ACCESS_REFUSED - access to topic 'acme2.command.mode' in exchange 'vcp' in vhost 'partner-k1' refused for user 'acme'",
} as const;

describe('a publish', () => {
  it('reaches the object unchanged [C-6.2]', async ({ client: { peer, link, events } }) => {
    const properties = { contentType: 'application/json', correlationId: 'c', headers: { k: [1, 'two'] } };
    peer.write(publishFrames('{"a":"č"}', { routingKey: 'acme.command.device', properties }));
    const { seq, ...rest } = await link.take('publish');
    expect(seq).toBeGreaterThan(0);
    expect(rest).toEqual({
      kind: 'publish',
      exchange: 'vcp',
      routingKey: 'acme.command.device',
      properties: propertyBytes(properties).toString('base64'),
      body: '{"a":"č"}',
      encoding: 'utf8',
    });
    expect(events.publishedCount).toBe(1);
  });

  it.for([
    ['no bytes', Buffer.alloc(0), '', 'utf8'],
    ['text with a replacement character of its own', Buffer.from('a\ufffdb'), 'a\ufffdb', 'utf8'],
    ['text with NUL', Buffer.from('\0'), '\0', 'utf8'],
    ['half a character', Buffer.from([0xc4]), 'xA==', 'base64'],
    ['bytes', Buffer.from([0xff, 0xfe, 0]), '//4A', 'base64'],
    ['a lone surrogate', Buffer.from([0xed, 0xa0, 0x80]), '7aCA', 'base64'],
  ] as const)(
    'reaches the object with the same bytes if its body has %s',
    async ([_, body, text, encoding], { peer, link }) => {
      peer.write(publishFrames(body));
      expect(await link.take('publish')).toMatchObject({ body: text, encoding });
    },
  );

  it('closes only its channel, with 311, if its body is above 256 KiB [C-6.3]', async ({ peer, link }) => {
    peer.write(publishFrames('x'.repeat(262_144)));
    expect((await link.take('publish')).body.length).toBe(262_144);
    peer.write(publishFrames('x'.repeat(262_145)));
    expect(await peer.takeChannelClose()).toBe(
      '311 CONTENT_TOO_LARGE - message size 262145 is larger than configured max size 262144 [60/40]',
    );
    await link.take('close-channel');
    await peer.reopenChannel();
    peer.write(publishFrames('fits'));
    expect((await link.take('publish')).body).toBe('fits');
  });

  it('reaches the object in one batch with all others of the same read', async ({ peer, link }) => {
    peer.write(...Array.from({ length: 50 }, (_, index) => publishFrames(`${index}`)));
    const [batch] = await link.untilBatches(1);
    expect(batch?.map((one) => one.kind === 'publish' && one.body)).toEqual(
      Array.from({ length: 50 }, (_, index) => `${index}`),
    );
  });

  it('gets no answer when it is stored, if there are no confirms', async ({ peer, link }) => {
    peer.write(publishFrames('a'));
    await link.store();
    await throughLink({ peer, link });
  });

  it('gets neither ack nor nack if the object rejects it [C-6.2]', async ({ publisher: { peer, link } }) => {
    peer.write(publishFrames('a'), publishFrames('b'), publishFrames('c'));
    const [first, second = 0, third] = await takeSeqs(link, 3);
    link.send(
      { kind: 'stored', seqs: [first ?? 0] },
      { ...REFUSED, seq: second },
      { kind: 'stored', seqs: [third ?? 0] },
    );
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 1, multiple: false });
    // The object stored it: this bridge does not know the scopes of the key.
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 3, multiple: false });
    expect(await peer.takeChannelClose()).toBe(`403 ${REFUSED.text} [60/40]`);
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
    await peer.reopenChannel();
  });

  it('closes the connection if the object rejects it with severity "connection"', async ({ peer, link }) => {
    peer.write(publishFrames('a'));
    await reject(link, 'publish', 540, 'NOT_IMPLEMENTED - that', 'connection');
    expect(await peer.takeConnectionClose()).toBe('540 NOT_IMPLEMENTED - that [60/40]');
  });

  it('gets no answer if the object rejects it after the client closed the channel', async ({
    peer,
    link,
  }) => {
    peer.write(publishFrames('a'));
    const { seq } = await link.take('publish');
    await peer.request(METHOD.channelClose, BYE, 1);
    link.send({ ...REFUSED, seq });
    await throughLink({ peer, link });
  });

  it.for([
    [{ userId: 'zzz' }, "user_id property set to 'zzz' but authenticated user was 'acme'"],
    [{ expiration: 'abc' }, "invalid expiration 'abc': no_integer"],
  ] as const)('closes its channel with 406 for the properties %j', async ([properties, why], { peer }) => {
    peer.write(publishFrames('a', { properties }));
    peer.send(METHOD.channelOpen, {}, 2);
    expect(await peer.takeChannelClose()).toBe(`406 PRECONDITION_FAILED - ${why} [60/40]`);
  });
});
