/** A link's life: signs of it, what is hostile on it, and its ends. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { startPulse } from '../../bridge/link.ts';
import { MAX_MESSAGE_CHARS } from '../../protocol/link/batch.ts';
import type { DeviceLinkUp } from '../../protocol/link/device.ts';
import { PONG } from '../../protocol/link/live.ts';
import { TestEdge } from '../support/bridge-edge.ts';
import { dialDevice, Heard, type OpenLink, openLink } from '../support/bridge-link.ts';
import { CLOCK, turns } from '../support/bridge-signal.ts';

let edge: TestEdge;
let stopPulse = () => {};

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(() => {
  vi.useFakeTimers(CLOCK);
  stopPulse = startPulse();
});
afterEach(() => {
  stopPulse();
  vi.useRealTimers();
  edge.reset();
});
afterAll(() => edge.stop());

/** A frame that wants an answer; its sequence. */
function publish({ link }: OpenLink, payload = 'x'): number {
  const seq = link.nextSeq();
  link.send({ kind: 'publish', seq, topic: 'telemetry', payload }, seq);
  return seq;
}

function seqsOf(batches: DeviceLinkUp[][]): number[][] {
  return batches.map((batch) => batch.map((one) => (one.kind === 'publish' ? one.seq : 0)));
}

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await turns();
}

describe('signs of life', () => {
  it('are asked for every 20 s', async () => {
    const { object, heard, link } = await openLink(edge);
    for (const count of [1, 2, 3, 4, 5]) {
      await pass(20_000);
      await object.untilPings(count);
      await turns();
    }
    expect(object.pings).toBe(5);
    expect(heard.closedWith).toBeUndefined();
    link.close();
  });

  it('that stay away for 60 s end the link', async () => {
    const { object, heard } = await openLink(edge);
    object.alive = false;
    await pass(60_000);
    expect(heard.closedWith).toBeUndefined();
    await pass(1_000);
    expect(await heard.untilClosed()).toEqual({ code: 1006, reason: 'no sign of life' });
    expect((await object.untilClosed()).code).toBe(1006);
  });

  it('may be frames as well as pongs', async () => {
    const { object, heard, link } = await openLink(edge);
    object.alive = false;
    for (let count = 1; count <= 3; count++) {
      await pass(40_000);
      object.send({ kind: 'command', payload: '{}' });
      await heard.untilFrames(count);
    }
    expect(heard.closedWith).toBeUndefined();
    object.socket.send(PONG);
    await turns();
    expect(heard.frames.length).toBe(3);
    link.close();
  });
});

describe('a link', () => {
  it('hands over what came before it had an owner, in order, and its end too', async () => {
    const [dialed, object] = await Promise.all([dialDevice(edge.url, edge.forBridge), edge.deviceLink()]);
    if (dialed.outcome !== 'accepted') throw new Error(dialed.outcome);
    object.send({ kind: 'command', payload: '1' }, { kind: 'command', payload: '2' });
    object.send({ kind: 'command', payload: '3' });
    object.close(4001, 'taken over');
    await object.untilClosed();
    const heard = new Heard();
    heard.attachTo(dialed.link);
    expect(await heard.untilClosed()).toEqual({ code: 4001, reason: 'taken over' });
    expect(heard.frames.map((one) => one.kind === 'command' && one.payload)).toEqual(['1', '2', '3']);
  });

  it.each([
    ['no JSON', 'x'],
    ['no batch', '{}'],
    ['an unknown frame', '[{"kind":"stop"}]'],
    ['a good and a bad frame', '[{"kind":"stored","seqs":[1]},{"kind":"stored"}]'],
    ['bytes', Buffer.from('[]')],
    ['a pong in bytes', Buffer.from(PONG)],
    ['a message that is too long', `[${' '.repeat(MAX_MESSAGE_CHARS)}]`],
  ])(
    'that brings %s is closed with 4400, and its owner hears nothing of it (rule 1)',
    async (_title, message) => {
      const { object, heard } = await openLink(edge);
      object.socket.send(message);
      expect((await object.untilClosed()).code).toBe(4400);
      await heard.untilClosed();
      expect(heard.frames).toEqual([]);
    },
  );

  it('that brings more than any message may have is closed before it is read', async () => {
    const { object, heard } = await openLink(edge);
    object.socket.on('error', () => {});
    object.socket.send('x'.repeat(4 * 1024 * 1024));
    expect((await object.untilClosed()).code).toBe(1009);
    await heard.untilClosed();
    expect(heard.frames).toEqual([]);
  });

  it('sends what waits before it closes, and nothing after', async () => {
    const open = await openLink(edge);
    publish(open);
    await open.object.untilBatches(1);
    publish(open);
    open.link.close();
    publish(open);
    open.link.close();
    expect((await open.object.untilClosed()).code).toBe(1000);
    expect(seqsOf(open.object.batches)).toEqual([[1], [2]]);
    await open.heard.untilClosed();
    await pass(120_000);
    expect(open.object.pings).toBe(0);
  });

  it('tells its owner once that it closed, with the object’s code', async () => {
    const { object, heard } = await openLink(edge);
    object.close(4003, 'revoked');
    expect(await heard.untilClosed()).toEqual({ code: 4003, reason: 'revoked' });
    await pass(120_000);
    expect(heard.closedTimes).toBe(1);
  });
});
