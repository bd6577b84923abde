/** The life of a link: its signs of life, invalid messages, and its end, by a close or by a goodbye. */
import { describe, expect } from 'vitest';
import { dialDevice, LinkOwner, seqsOf } from '#support/bridge-link.ts';
import { turns } from '#support/bridge-signal.ts';
import { linkTest as it } from '#support/bridge-test.ts';
import { MAX_MESSAGE_CHARS } from '../../protocol/link/batch.ts';
import { PONG } from '../../protocol/link/live.ts';
import { LINK_VERSION, LINK_VERSION_HEADER } from '../../protocol/link/proof.ts';

const GOODBYE = { kind: 'goodbye', code: 4001, reason: 'taken over' } as const;

describe('signs of life', () => {
  it('a link sends a ping every 20 s', async ({ clock, object, owner }) => {
    for (const count of [1, 2, 3, 4, 5]) {
      await clock.pass(20_000);
      await object.untilPings(count);
      await turns();
    }
    expect(object.pings).toBe(5);
    expect(owner.closedWith).toBeUndefined();
  });

  it('a link without a sign of life for 60 s ends', async ({ clock, object, owner }) => {
    object.alive = false;
    await clock.pass(60_000);
    expect(owner.closedWith).toBeUndefined();
    await clock.pass(1_000);
    expect(await owner.untilClosed()).toEqual({ code: 1006, reason: 'no frame or pong from the edge' });
    expect((await object.untilClosed()).code).toBe(1006);
  });

  it('frames of the object are signs of life like pongs', async ({ clock, object, owner }) => {
    object.alive = false;
    for (let count = 1; count <= 3; count++) {
      await clock.pass(40_000);
      object.send({ kind: 'command', payload: '{}' });
      await owner.untilFrames(count);
    }
    expect(owner.closedWith).toBeUndefined();
    object.socket.send(PONG);
    await turns();
    expect(owner.frames.length).toBe(3);
  });
});

describe('a link', () => {
  it('delivers frames and a close from before its owner attached, in order', async ({ edge }) => {
    const [dialed, object] = await Promise.all([dialDevice(edge.url, edge.forBridge), edge.deviceLink()]);
    if (dialed.outcome !== 'accepted') throw new Error(dialed.outcome);
    object.send({ kind: 'command', payload: '1' }, { kind: 'command', payload: '2' });
    object.send({ kind: 'command', payload: '3' });
    object.close(4001, 'taken over');
    await object.untilClosed();
    const owner = new LinkOwner();
    owner.attachTo(dialed.link);
    expect(await owner.untilClosed()).toEqual({ code: 4001, reason: 'taken over' });
    expect(owner.frames.map((one) => one.kind === 'command' && one.payload)).toEqual(['1', '2', '3']);
  });

  it.for([
    ['invalid JSON', 'x'],
    ['an object', '{}'],
    ['an unknown frame', '[{"kind":"stop"}]'],
    ['a good and a bad frame', '[{"kind":"stored","seqs":[1]},{"kind":"stored"}]'],
    ['bytes', Buffer.from('[]')],
    ['a pong in bytes', Buffer.from(PONG)],
    ['a message that is too long', `[${' '.repeat(MAX_MESSAGE_CHARS)}]`],
  ] as const)(
    'closes with 4400 when it receives %s, and delivers nothing to its owner (rule 1)',
    async ([_, message], { object, owner }) => {
      object.socket.send(message);
      expect((await object.untilClosed()).code).toBe(4400);
      await owner.untilClosed();
      expect(owner.frames).toEqual([]);
    },
  );

  it('closes with 1009 when it receives 4 MiB, and delivers nothing to its owner', async ({
    object,
    owner,
  }) => {
    object.socket.on('error', () => {});
    object.socket.send('x'.repeat(4 * 1024 * 1024));
    expect((await object.untilClosed()).code).toBe(1009);
    await owner.untilClosed();
    expect(owner.frames).toEqual([]);
  });

  it('sends its waiting frames when it closes, and nothing after that', async ({ clock, open }) => {
    open.publish();
    await open.object.untilBatches(1);
    open.publish();
    open.link.close();
    open.publish();
    open.link.close();
    expect((await open.object.untilClosed()).code).toBe(1000);
    expect(seqsOf(open.object.batches)).toEqual([[1], [2]]);
    await open.owner.untilClosed();
    await clock.pass(120_000);
    expect(open.object.pings).toBe(0);
  });

  it('reports the object’s close once to its owner', async ({ clock, object, owner }) => {
    object.close(4003, 'revoked');
    expect(await owner.untilClosed()).toEqual({ code: 4003, reason: 'revoked' });
    await clock.pass(120_000);
    expect(owner.closedTimes).toBe(1);
  });

  it('announces its version in its dial', async ({ edge, open: _open }) => {
    expect(edge.dialed[0]?.headers[LINK_VERSION_HEADER]).toBe(String(LINK_VERSION));
  });

  it('reports a goodbye once to its owner and drops the socket', async ({ clock, object, owner }) => {
    object.sayGoodbye(4001, 'taken over');
    expect(await owner.untilClosed()).toEqual({ code: 4001, reason: 'taken over' });
    expect(await object.closeCode()).toBe(1006);
    await clock.pass(120_000);
    expect(owner.closedTimes).toBe(1);
    expect(object.pings).toBe(0);
  });

  it('delivers the object’s frames before a goodbye, not those after it', async ({ object, owner }) => {
    object.send({ kind: 'command', payload: '1' }, GOODBYE);
    object.send({ kind: 'command', payload: '2' });
    await owner.untilClosed();
    await turns();
    expect(owner.frames).toEqual([{ kind: 'command', payload: '1' }]);
  });

  it('sends nothing after a goodbye of the object', async ({ link, object, owner }) => {
    object.send(GOODBYE);
    await owner.untilClosed();
    link.send({ kind: 'publish', seq: link.nextSeq(), topic: 'telemetry', payload: 'late' });
    link.close();
    await object.untilClosed();
    expect(object.received).toEqual([]);
  });
});
