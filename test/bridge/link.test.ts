/** The link's traffic: smart batching, and answers by sequence. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { startPulse } from '../../bridge/link.ts';
import type { DeviceLinkUp } from '../../protocol/link/device.ts';
import { TestEdge } from '../support/bridge-edge.ts';
import { type OpenLink, openLink } from '../support/bridge-link.ts';
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

describe('batching', () => {
  it('sends at once while nothing is under way: one message for all of a turn', async () => {
    const open = await openLink(edge);
    for (let count = 0; count < 3; count++) publish(open);
    expect(seqsOf(await open.object.untilBatches(1))).toEqual([[1, 2, 3]]);
    open.link.close();
  });

  it('gathers behind what is not answered, until an answer comes', async () => {
    const open = await openLink(edge);
    publish(open);
    await open.object.untilBatches(1);
    publish(open);
    await turns();
    publish(open);
    await turns();
    open.object.send({ kind: 'stored', seqs: [1] });
    expect(seqsOf(await open.object.untilBatches(2))).toEqual([[1], [2, 3]]);
    open.link.close();
  });

  it('gathers for two milliseconds and no longer, though no answer comes', async () => {
    const open = await openLink(edge);
    publish(open);
    await open.object.untilBatches(1);
    publish(open);
    await pass(1);
    publish(open);
    await pass(1);
    expect(seqsOf(await open.object.untilBatches(2))).toEqual([[1], [2, 3]]);
    open.link.close();
  });

  it('sends what awaits no answer at once, and what has gathered with it', async () => {
    const open = await openLink(edge);
    publish(open);
    await open.object.untilBatches(1);
    publish(open);
    open.link.send({ kind: 'subscribed', commands: true });
    expect(seqsOf(await open.object.untilBatches(2))).toEqual([[1], [2, 0]]);
    open.link.close();
  });

  it('sends 256 frames at once, and the rest when its time comes', async () => {
    const open = await openLink(edge);
    publish(open);
    await open.object.untilBatches(1);
    for (let count = 0; count < 300; count++) publish(open);
    expect((await open.object.untilBatches(2))[1]?.length).toBe(256);
    await pass(2);
    expect((await open.object.untilBatches(3))[2]?.length).toBe(44);
    open.link.close();
  });

  it('closes a message before it exceeds 256 Ki characters', async () => {
    const open = await openLink(edge);
    for (let count = 0; count < 5; count++) publish(open, 'x'.repeat(100_000));
    expect(seqsOf(await open.object.untilBatches(3))).toEqual([[1, 2], [3, 4], [5]]);
    open.link.close();
  });

  it('stays in order however it is cut', async () => {
    const open = await openLink(edge);
    for (let count = 0; count < 1_000; count++) {
      publish(open);
      if (count % 90 === 0) await turns(1);
    }
    await pass(2);
    await open.object.take('publish');
    for (let seq = 2; seq <= 1_000; seq++) expect((await open.object.take('publish')).seq).toBe(seq);
    open.link.close();
  });
});

describe('answers', () => {
  it('name sequences: one that is missing keeps the link waiting, whatever came after it (rule 4)', async () => {
    const open = await openLink(edge);
    for (let count = 0; count < 3; count++) publish(open);
    await open.object.untilBatches(1);
    open.object.send({ kind: 'stored', seqs: [3, 2] });
    await open.heard.untilFrames(1);
    publish(open);
    await turns();
    expect(open.object.batches.length).toBe(1);
    open.object.send({ kind: 'refused', seq: 1, reason: 'late' });
    await open.object.untilBatches(2);
    open.link.close();
  });

  it('that do not come in 10 s mean that the link is lost (rule 3)', async () => {
    const open = await openLink(edge);
    publish(open);
    await open.object.untilBatches(1);
    await pass(5_000);
    publish(open);
    open.object.send({ kind: 'stored', seqs: [2] }, { kind: 'command', payload: '{}' });
    await open.heard.untilFrames(2);
    await pass(5_000);
    expect(open.heard.closedWith).toBeUndefined();
    await pass(1_000);
    expect(await open.heard.untilClosed()).toEqual({ code: 1006, reason: 'no answer' });
    expect((await open.object.untilClosed()).code).toBe(1006);
  });

  it('that come in time keep the link, however many there were', async () => {
    const open = await openLink(edge);
    for (let round = 0; round < 4; round++) {
      const seq = publish(open);
      await open.object.take('publish');
      await pass(9_000);
      open.object.send({ kind: 'stored', seqs: [seq] });
      await open.heard.untilFrames(round + 1);
    }
    expect(open.heard.closedWith).toBeUndefined();
    open.link.close();
  });

  it('are numbered from one, each once', async () => {
    const { link } = await openLink(edge);
    expect([link.nextSeq(), link.nextSeq(), link.nextSeq()]).toEqual([1, 2, 3]);
    link.close();
  });
});
