/** The traffic of a link: how frames are batched for devices and for partners, and answers by sequence. */
import { describe, expect } from 'vitest';
import { partnerSeqsOf, seqsOf } from '#support/bridge-link.ts';
import { turns } from '#support/bridge-signal.ts';
import { linkTest as it } from '#support/bridge-test.ts';

describe('batching', () => {
  it('all frames that are sent in one turn of the event loop share one message', async ({ open }) => {
    for (let count = 0; count < 3; count++) open.publish();
    expect(seqsOf(await open.object.untilBatches(1))).toEqual([[1, 2, 3]]);
  });

  it('a message has at most 256 Ki characters', async ({ open }) => {
    open.link.send({ kind: 'subscribed', commands: true });
    for (let count = 0; count < 5; count++) open.publish('x'.repeat(100_000));
    expect(seqsOf(await open.object.untilBatches(3))).toEqual([[0, 1, 2], [3, 4], [5]]);
  });

  it('frames stay in order', async ({ open }) => {
    for (let count = 0; count < 1_000; count++) {
      open.publish();
      if (count % 90 === 0) await turns(1);
    }
    for (let seq = 1; seq <= 1_000; seq++) expect((await open.object.store()).seq).toBe(seq);
  });
});

describe('the batches of a device', () => {
  it('go one at a time: what comes while one is unanswered follows its answer in one message', async ({
    clock,
    open,
  }) => {
    open.publish();
    await open.object.untilBatches(1);
    for (let count = 0; count < 3; count++) {
      open.publish();
      await turns();
      await clock.pass(1_000);
    }
    expect(open.object.batches.length).toBe(1);
    open.object.send({ kind: 'stored', seqs: [1] });
    expect(seqsOf(await open.object.untilBatches(2))).toEqual([[1], [2, 3, 4]]);
  });

  it('have at most 256 frames; what is over it follows the next answer', async ({ open }) => {
    open.publish();
    await open.object.untilBatches(1);
    for (let count = 0; count < 300; count++) open.publish();
    open.object.send({ kind: 'stored', seqs: [1] });
    const [, second = []] = await open.object.untilBatches(2);
    expect(second.length).toBe(256);
    await turns();
    expect(open.object.batches.length).toBe(2);
    open.object.send({ kind: 'stored', seqs: seqsOf([second]).flat() });
    expect((await open.object.untilBatches(3))[2]?.length).toBe(44);
  });

  it('are measured from the publish, with its wait for the batch before', async ({ clock, open }) => {
    open.publish();
    await open.object.untilBatches(1);
    open.publish();
    await clock.pass(3_000);
    open.object.send({ kind: 'stored', seqs: [1] });
    await open.object.untilBatches(2);
    await clock.pass(1_000);
    open.object.send({ kind: 'stored', seqs: [2] });
    await open.owner.untilFrames(2);
    expect(open.answeredSeconds).toEqual([3, 4]);
  });

  it('may wait longer than a lost link for the batch before: the time of a batch begins when it is sent', async ({
    clock,
    open,
  }) => {
    open.publish();
    await open.object.untilBatches(1);
    open.publish();
    await clock.pass(9_000);
    open.object.send({ kind: 'stored', seqs: [1] });
    await open.object.untilBatches(2);
    await clock.pass(9_000);
    expect(open.owner.closedWith).toBeUndefined();
  });

  it('count a publish that must wait for its rate as answered', async ({ open }) => {
    open.publish();
    await open.object.untilBatches(1);
    open.publish();
    open.object.send({ kind: 'wait', seqs: [1], ms: 100, count: 1 });
    expect(seqsOf(await open.object.untilBatches(2))).toEqual([[1], [2]]);
  });

  it.for([
    ['an acknowledgement', { kind: 'publish', seq: 99, topic: 'ack', payload: '{}' }, 99],
    ['a frame that needs no answer', { kind: 'subscribed', commands: true }, undefined],
  ] as const)('do not delay %s, which takes all that wait with it', async ([_name, frame, seq], { open }) => {
    open.publish();
    await open.object.untilBatches(1);
    for (let count = 0; count < 300; count++) open.publish();
    open.link.send(frame, seq, true);
    const batches = await open.object.untilBatches(3);
    expect(batches.map(({ length }) => length)).toEqual([1, 256, 45]);
    expect(batches[2]?.at(-1)).toEqual(frame);
  });
});

describe('the batches of a partner', () => {
  it('wait for an answer, and are then sent in one message', async ({ partner }) => {
    partner.publish();
    await partner.object.untilBatches(1);
    partner.publish();
    await turns();
    partner.publish();
    await turns();
    partner.object.send({ kind: 'stored', seqs: [1] });
    expect(partnerSeqsOf(await partner.object.untilBatches(2))).toEqual([[1], [2, 3]]);
  });

  it('wait for the answer at most two milliseconds', async ({ clock, partner }) => {
    partner.publish();
    await partner.object.untilBatches(1);
    partner.publish();
    await clock.pass(1);
    partner.publish();
    await clock.pass(1);
    expect(partnerSeqsOf(await partner.object.untilBatches(2))).toEqual([[1], [2, 3]]);
  });

  it('are sent when they have 256 frames', async ({ clock, partner }) => {
    partner.publish();
    await partner.object.untilBatches(1);
    for (let count = 0; count < 300; count++) partner.publish();
    expect((await partner.object.untilBatches(2))[1]?.length).toBe(256);
    await clock.pass(2);
    expect((await partner.object.untilBatches(3))[2]?.length).toBe(44);
  });
});

describe('answers', () => {
  it('while one of three sequences has no answer, new frames wait (rule 4)', async ({ open }) => {
    for (let count = 0; count < 3; count++) open.publish();
    await open.object.untilBatches(1);
    open.object.send({ kind: 'stored', seqs: [3, 2] });
    await open.owner.untilFrames(1);
    open.publish();
    await turns();
    expect(open.object.batches.length).toBe(1);
    open.object.send({ kind: 'refused', seq: 1, reason: 'late' });
    await open.object.untilBatches(2);
  });

  it('a sequence without an answer for 10 s means a lost link (rule 3)', async ({ clock, open }) => {
    open.publish();
    await open.object.untilBatches(1);
    await clock.pass(5_000);
    open.publish();
    open.object.send({ kind: 'stored', seqs: [2] }, { kind: 'command', payload: '{}' });
    await open.owner.untilFrames(2);
    await clock.pass(5_000);
    expect(open.owner.closedWith).toBeUndefined();
    await clock.pass(1_000);
    expect(await open.owner.untilClosed()).toEqual({
      code: 1006,
      reason: 'no answer to a frame from the edge',
    });
    expect((await open.object.untilClosed()).code).toBe(1006);
  });

  it('an answer after 9 s keeps the link', async ({ clock, open }) => {
    for (let round = 0; round < 4; round++) {
      const seq = open.publish();
      await open.object.take('publish');
      await clock.pass(9_000);
      open.object.send({ kind: 'stored', seqs: [seq] });
      await open.owner.untilFrames(round + 1);
    }
    expect(open.owner.closedWith).toBeUndefined();
  });

  it('sequences count from one', async ({ link }) => {
    expect([link.nextSeq(), link.nextSeq(), link.nextSeq()]).toEqual([1, 2, 3]);
  });
});
