/** Publishing: what reaches the object, and what the publisher is told of it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { openAmqp, openPublisher, takeSeqs, throughLink } from '../../support/bridge-amqp.ts';
import { headerFrame, publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';

const REFUSED = {
  kind: 'refused',
  severity: 'channel',
  code: 403,
  text: "ACCESS_REFUSED - access to topic 'acme2.command.mode' in exchange 'vcp' in vhost 'partner-k1' refused for user 'acme'",
} as const;

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterAll(() => edge.stop());

describe('a publish', () => {
  it('reaches the object as it was sent: names, properties byte for byte, body [C-6.2]', async () => {
    const { peer, link, events } = await openAmqp(edge);
    const properties = { contentType: 'application/json', correlationId: 'c', headers: { k: [1, 'two'] } };
    peer.write(publishFrames('{"a":"č"}', { routingKey: 'acme.command.device', properties }));
    const { seq, ...rest } = await link.take('publish');
    expect(seq).toBeGreaterThan(0);
    expect(rest).toEqual({
      kind: 'publish',
      exchange: 'vcp',
      routingKey: 'acme.command.device',
      properties: headerFrame(0, properties).subarray(19, -1).toString('base64'),
      body: '{"a":"č"}',
      encoding: 'utf8',
    });
    expect(events.publishedCount).toBe(1);
    peer.stream.destroy();
  });

  it.each([
    ['empty', Buffer.alloc(0), '', 'utf8'],
    ['text with a replacement character of its own', Buffer.from('a\ufffdb'), 'a\ufffdb', 'utf8'],
    ['text with NUL', Buffer.from('\0'), '\0', 'utf8'],
    ['half a character', Buffer.from([0xc4]), 'xA==', 'base64'],
    ['bytes', Buffer.from([0xff, 0xfe, 0]), '//4A', 'base64'],
    ['a lone surrogate', Buffer.from([0xed, 0xa0, 0x80]), '7aCA', 'base64'],
  ])('with a body of %s loses none of its bytes', async (_title, body, text, encoding) => {
    const { peer, link } = await openAmqp(edge);
    peer.write(publishFrames(body));
    expect(await link.take('publish')).toMatchObject({ body: text, encoding });
    peer.stream.destroy();
  });

  it('of 256 KiB arrives whole; a byte more closes the channel with 311, and its body is ignored [C-6.3]', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.write(publishFrames('x'.repeat(262_144)));
    expect((await link.take('publish')).body.length).toBe(262_144);
    peer.write(publishFrames('x'.repeat(262_145)));
    expect(await peer.takeChannelClose()).toBe(
      '311 CONTENT_TOO_LARGE - message size 262145 is larger than configured max size 262144 [60/40]',
    );
    await link.take('close-channel');
    peer.send(METHOD.channelCloseOk, {}, 1);
    await peer.openChannel(1);
    peer.write(publishFrames('fits'));
    expect((await link.take('publish')).body).toBe('fits');
    peer.stream.destroy();
  });

  it('travels with all that one read brought', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.write(...Array.from({ length: 50 }, (_, index) => publishFrames(`${index}`)));
    const [batch] = await link.untilBatches(1);
    expect(batch?.map((one) => one.kind === 'publish' && one.body)).toEqual(
      Array.from({ length: 50 }, (_, index) => `${index}`),
    );
    peer.stream.destroy();
  });

  it('without confirms is answered nothing when it is stored', async () => {
    const client = await openAmqp(edge);
    const { peer, link } = client;
    peer.write(publishFrames('a'));
    link.send({ kind: 'stored', seqs: [(await link.take('publish')).seq] });
    await throughLink(client);
    peer.stream.destroy();
  });

  it('that is refused closes its channel, and is told neither ack nor nack [C-6.2]', async () => {
    const client = await openPublisher(edge);
    const { peer, link } = client;
    peer.write(publishFrames('a'), publishFrames('b'), publishFrames('c'));
    const [first, second = 0, third] = await takeSeqs(client, 3);
    link.send(
      { kind: 'stored', seqs: [first ?? 0] },
      { ...REFUSED, seq: second },
      { kind: 'stored', seqs: [third ?? 0] },
    );
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 1, multiple: false });
    // It was taken: which of them may not be published, this bridge was not told.
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 3, multiple: false });
    expect(await peer.takeChannelClose()).toBe(`403 ${REFUSED.text} [60/40]`);
    expect(await link.take('close-channel')).toEqual({ kind: 'close-channel', channel: 1 });
    peer.send(METHOD.channelCloseOk, {}, 1);
    await peer.openChannel(1);
    peer.stream.destroy();
  });

  it('that is refused with severity connection closes the connection', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.write(publishFrames('a'));
    const { seq } = await link.take('publish');
    link.send({ kind: 'refused', seq, severity: 'connection', code: 540, text: 'NOT_IMPLEMENTED - that' });
    expect(await peer.takeConnectionClose()).toBe('540 NOT_IMPLEMENTED - that [60/40]');
  });

  it('that is refused after its channel was closed changes nothing there', async () => {
    const client = await openAmqp(edge);
    const { peer, link } = client;
    peer.write(publishFrames('a'));
    const { seq } = await link.take('publish');
    peer.send(METHOD.channelClose, { replyCode: 200, replyText: '', classId: 0, methodId: 0 }, 1);
    await peer.takeMethod(METHOD.channelCloseOk);
    link.send({ ...REFUSED, seq });
    await throughLink(client);
    peer.stream.destroy();
  });

  it.each([
    [
      { userId: 'zzz' },
      "406 PRECONDITION_FAILED - user_id property set to 'zzz' but authenticated user was 'acme' [60/40]",
    ],
    [{ expiration: 'abc' }, "406 PRECONDITION_FAILED - invalid expiration 'abc': no_integer [60/40]"],
  ])('with properties %j closes the channel: 406', async (properties, expected) => {
    const { peer } = await openAmqp(edge);
    peer.write(publishFrames('a', { properties }));
    peer.send(METHOD.channelOpen, {}, 2);
    expect(await peer.takeChannelClose()).toBe(expected);
  });

  it('with immediate closes the connection: 540 [C-6.3]', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.write(publishFrames('a', { immediate: true }));
    expect(await peer.takeConnectionClose()).toBe('540 NOT_IMPLEMENTED - immediate=true [60/40]');
    expect(link.received).toEqual([]);
  });
});
