/** Confirms on the wire. */
import { describe, expect } from 'vitest';
import { deliver, amqpTest as it, selectConfirms, takeSeqs, throughLink } from '#support/bridge-amqp.ts';
import { publishFrames } from '#support/bridge-amqp-frames.ts';
import { turns } from '#support/bridge-signal.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { startPulse } from '../../../bridge/link.ts';
import type { VhostLinkDown } from '../../../protocol/link/vhost.ts';

describe('confirms on a channel', () => {
  it('publishes stored without a gap share one ack; after a gap each gets its own [C-6.4]', async ({
    publisher: { peer, link },
  }) => {
    peer.write(...Array(10).fill(publishFrames('x')));
    const seqs = await takeSeqs(link, 10);
    await turns();
    const before = peer.frames.length;
    link.send({ kind: 'stored', seqs: seqs.slice(0, 4) });
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 4, multiple: true });
    link.send({ kind: 'stored', seqs: seqs.slice(5) });
    for (const deliveryTag of [6, 7, 8, 9, 10])
      expect(await peer.next()).toMatchObject({ type: 'method', fields: { deliveryTag } });
    link.send({ kind: 'unstored', seqs: seqs.slice(4, 5) });
    expect(await peer.takeMethod(METHOD.basicNack)).toMatchObject({ deliveryTag: 5, multiple: false });
    expect(peer.frames.length).toBe(before + 7);
  });

  it('twenty that are answered by frames of one link message share one ack; a nack among them is sent alone [C-6.4]', async ({
    publisher: { peer, link },
  }) => {
    peer.write(...Array(20).fill(publishFrames('x')));
    const seqs = await takeSeqs(link, 20);
    await turns();
    const before = peer.frames.length;
    link.send(
      ...seqs.map(
        (seq, index): VhostLinkDown => ({
          kind: index === 7 ? 'unstored' : 'stored',
          seqs: [seq],
        }),
      ),
    );
    expect(await peer.takeMethod(METHOD.basicNack)).toMatchObject({ deliveryTag: 8, multiple: false });
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 20, multiple: true });
    expect(peer.frames.length).toBe(before + 2);
  });

  it('have tags that count only the publishes of their own channel', async ({
    publisher: { peer, link },
  }) => {
    await peer.openChannel(2);
    peer.send(METHOD.confirmSelect, { nowait: true }, 2);
    peer.write(publishFrames('a'), publishFrames('b'), publishFrames('c', { channel: 2 }));
    link.send({ kind: 'stored', seqs: (await takeSeqs(link, 3)).reverse() });
    const confirms = [await peer.takeMethod(METHOD.basicAck), await peer.takeMethod(METHOD.basicAck)];
    expect(confirms.map(({ channel, deliveryTag }) => [channel, deliveryTag])).toEqual([
      [1, 2],
      [2, 1],
    ]);
  });

  it('have tags that count from the first confirm.select; a second one changes nothing', async ({
    peer,
    link,
  }) => {
    peer.write(publishFrames('before'));
    await link.take('publish');
    for (let time = 0; time < 2; time++) {
      await selectConfirms(peer);
      peer.write(publishFrames('after'));
      await link.store();
      expect((await peer.takeMethod(METHOD.basicAck)).deliveryTag).toBe(time + 1);
    }
  });

  it('precede the acknowledgement event of the command [C-6.4]', async ({ consumer: { peer, link } }) => {
    await selectConfirms(peer);
    peer.write(publishFrames('command'));
    const [seq = 0] = await takeSeqs(link, 1);
    link.send({ kind: 'stored', seqs: [seq] }, deliver(1, { body: 'acknowledgement' }));
    await peer.takeMethod(METHOD.basicAck);
    expect((await peer.takeContent(METHOD.basicDeliver)).body.toString()).toBe('acknowledgement');
  });

  it('an answer of the object to an unknown sequence is ignored', async ({ publisher: { peer, link } }) => {
    link.send(
      { kind: 'stored', seqs: [99, 100] },
      { kind: 'refused', seq: 101, severity: 'channel', code: 403, text: 'ACCESS_REFUSED' },
      { kind: 'ok', seq: 102 },
    );
    await throughLink({ peer, link });
  });

  it('are sent before the close of a shutdown in the same turn, if they have arrived', async ({
    publisher: { peer, link, connection, events },
  }) => {
    peer.write(publishFrames('a'));
    await link.store();
    await events.untilAnswered('confirmed');
    expect(peer.countOf(METHOD.basicAck)).toBe(0);
    connection.shutdown('shutdown');
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 1 });
    expect(await peer.takeConnectionClose()).toMatch(/^320 /);
  });

  it('missing for 10 s mean a lost link: 320, no nack (rule 3)', async ({ clock, publisher }) => {
    const stopPulse = startPulse();
    publisher.peer.write(publishFrames('a'));
    await takeSeqs(publisher.link, 1);
    await clock.pass(12_000);
    stopPulse();
    expect(await publisher.peer.takeConnectionClose()).toMatch(/^320 CONNECTION_FORCED/);
  });
});
