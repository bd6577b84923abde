/** Confirms on the wire: when a publisher hears that its message is stored, and how. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { startPulse } from '../../../bridge/link.ts';
import {
  deliveryOf,
  openAmqp,
  openConsumer,
  openPublisher,
  takeSeqs,
  throughLink,
} from '../../support/bridge-amqp.ts';
import { publishFrames } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

describe('a confirm', () => {
  it('comes when the object has stored, not before, and one for many [C-6.4]', async () => {
    const client = await openPublisher(edge);
    const { peer, link } = client;
    peer.write(...Array(10).fill(publishFrames('x')));
    const seqs = await takeSeqs(client, 10);
    await turns();
    const before = peer.frames.length;
    link.send({ kind: 'stored', seqs: seqs.slice(0, 4) });
    expect(await peer.takeMethod(METHOD.basicAck)).toMatchObject({ deliveryTag: 4, multiple: true });
    link.send({ kind: 'stored', seqs: seqs.slice(5) }, { kind: 'unstored', seqs: [seqs[4] ?? 0] });
    const told = [
      await peer.take(),
      await peer.take(),
      await peer.take(),
      await peer.take(),
      await peer.take(),
    ];
    expect(told.map((one) => one.type === 'method' && one.fields.deliveryTag)).toEqual([6, 7, 8, 9, 10]);
    expect(await peer.takeMethod(METHOD.basicNack)).toMatchObject({ deliveryTag: 5, multiple: false });
    expect(peer.frames.length).toBe(before + 7);
    peer.stream.destroy();
  });

  it('counts the publishes of its own channel alone', async () => {
    const client = await openPublisher(edge);
    const { peer, link } = client;
    await peer.openChannel(2);
    peer.send(METHOD.confirmSelect, { nowait: true }, 2);
    peer.write(publishFrames('a'), publishFrames('b'), publishFrames('c', { channel: 2 }));
    link.send({ kind: 'stored', seqs: (await takeSeqs(client, 3)).reverse() });
    const told = [await peer.takeMethod(METHOD.basicAck), await peer.takeMethod(METHOD.basicAck)];
    expect(told.map(({ channel, deliveryTag }) => [channel, deliveryTag])).toEqual([
      [1, 2],
      [2, 1],
    ]);
    peer.stream.destroy();
  });

  it('starts to count where it was selected, and is not started again', async () => {
    const { peer, link } = await openAmqp(edge);
    peer.write(publishFrames('before'));
    await link.take('publish');
    for (let time = 0; time < 2; time++) {
      peer.send(METHOD.confirmSelect, {}, 1);
      await peer.takeMethod(METHOD.confirmSelectOk);
      peer.write(publishFrames('after'));
      link.send({ kind: 'stored', seqs: [(await link.take('publish')).seq] });
      expect((await peer.takeMethod(METHOD.basicAck)).deliveryTag).toBe(time + 1);
    }
    peer.stream.destroy();
  });

  it('goes out before the acknowledgement event that came with it [C-6.4]', async () => {
    const client = await openConsumer(edge);
    const { peer, link, tag } = client;
    peer.send(METHOD.confirmSelect, {}, 1);
    await peer.takeMethod(METHOD.confirmSelectOk);
    peer.write(publishFrames('command'));
    const [seq = 0] = await takeSeqs(client, 1);
    link.send(
      { kind: 'stored', seqs: [seq] },
      { kind: 'deliver', channel: 1, tag, delivery: deliveryOf(1, { body: 'acknowledgement' }) },
    );
    await peer.takeMethod(METHOD.basicAck);
    expect((await peer.takeContent(METHOD.basicDeliver)).body.toString()).toBe('acknowledgement');
    peer.stream.destroy();
  });

  it('of a publish that was never made is no confirm', async () => {
    const client = await openPublisher(edge);
    const { peer, link } = client;
    link.send(
      { kind: 'stored', seqs: [99, 100] },
      { kind: 'refused', seq: 101, severity: 'channel', code: 403, text: 'ACCESS_REFUSED' },
      { kind: 'ok', seq: 102 },
    );
    await throughLink(client);
    peer.stream.destroy();
  });

  it('that is due when the connection is closed goes out before the close', async () => {
    const client = await openPublisher(edge);
    const { peer, link, connection } = client;
    peer.write(publishFrames('a'));
    link.send({ kind: 'stored', seqs: await takeSeqs(client, 1) });
    await peer.takeMethod(METHOD.basicAck);
    connection.shutdown('shutdown');
    await peer.takeConnectionClose();
  });

  it('that does not come in 10 s means that the link is lost: 320, and no nack (rule 3)', async () => {
    vi.useFakeTimers(CLOCK);
    const stopPulse = startPulse();
    const client = await openPublisher(edge);
    client.peer.write(publishFrames('a'));
    await takeSeqs(client, 1);
    await vi.advanceTimersByTimeAsync(12_000);
    stopPulse();
    expect(await client.peer.takeConnectionClose()).toMatch(/^320 CONNECTION_FORCED/);
  });
});
