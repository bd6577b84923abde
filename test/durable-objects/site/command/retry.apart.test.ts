/**
 * Retries of an outbox lane and late batches: one answer per publish, and no effect after the partner
 * received a rejection.
 */
import { watchRegistry } from '#workerd/registry-reads.ts';
import { setScene } from '#workerd/scene.ts';
import { SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, nthCommand } from '#workerd/site-devices.ts';
import { readCommands } from '#workerd/site-reads.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { charge, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { siteOf } from '#workerd/world.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';

const OLD_MS = START_MS - 301 * SECOND;

describe('a rejected publish that the Vhost sends again', () => {
  const cases: [string, (publishId: string) => Submission][] = [
    ['a missing signature', (publishId) => charge(5, { signature: 'missing', publishId })],
    ['a wrong signature', (publishId) => charge(5, { signature: 'mismatch', publishId })],
    [
      'a wrong signature and its hint',
      (publishId) => charge(5, { signature: 'mismatch', signatureHint: 'signed over: 1.1|č…', publishId }),
    ],
    ['a timestamp outside tolerance', (publishId) => charge(5, { timestampMs: OLD_MS, publishId })],
  ];

  it.for(cases)(
    'gets the same acknowledgement and has one log row if it was rejected for %s [rule 5]',
    async ([_what, make], { plainSite: { plant, partner } }) => {
      const one = make(crypto.randomUUID());
      const first = await partner.acknowledgeEvent(one);
      expect(JSON.parse(first.payloadText)).toMatchObject({ status: 'REJECTED' });
      setClock(START_MS + SECOND);
      const again = await partner.acknowledgeEvent(one);
      await evictSite(plant.id);
      const late = await partner.acknowledgeEvent(one);
      for (const event of [again, late]) {
        expect([event.messageId, event.payloadText]).toEqual([first.messageId, first.payloadText]);
      }
      expect((await readCommands(plant.id)).total).toBe(1);
    },
  );

  it('gets the same acknowledgement if it was rejected for a reused messageId; the first command is unaffected [C-7.3]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const one = charge(5, { publishId: crypto.randomUUID() });
    const first = await partner.acknowledgeEvent(one);
    const reused = charge(6, { messageId: one.messageId, publishId: crypto.randomUUID() });
    const refusals = [await partner.acknowledgeEvent(reused), await partner.acknowledgeEvent(reused)];
    expect(refusals.map((event) => JSON.parse(event.payloadText).message)).toEqual(
      Array(2).fill('messageId reused'),
    );
    expect(refusals[0]?.messageId).toBe(refusals[1]?.messageId);
    expect(refusals[0]?.messageId).not.toBe(first.messageId);
    expect((await readCommands(plant.id)).total).toBe(2);
    expect((await partner.acknowledgeEvent(one)).messageId).toBe(first.messageId);
    await nthCommand(link, 1);
    expect(commandsOf(link)).toHaveLength(1);
  });

  it('a publish with the same text but another publishId has its own log row and acknowledgement id [C-7.3]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const one = charge(5, { signature: 'missing', publishId: crypto.randomUUID() });
    const first = await partner.acknowledgeEvent(one);
    const other = await partner.acknowledgeEvent({ ...one, publishId: crypto.randomUUID() });
    expect(other.messageId).not.toBe(first.messageId);
    expect((await readCommands(plant.id)).total).toBe(2);
  });

  it('stays rejected for its timestamp, although the timestamp is within the tolerance by then [rule 5]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const one = charge(5, { timestampMs: START_MS + 301 * SECOND, publishId: crypto.randomUUID() });
    const first = await partner.acknowledgeEvent(one);
    expect(JSON.parse(first.payloadText)).toMatchObject({ status: 'REJECTED' });
    setClock(START_MS + 3 * SECOND);
    const again = await partner.acknowledgeEvent(one);
    expect([again.messageId, again.payloadText]).toEqual([first.messageId, first.payloadText]);
    expect((await readCommands(plant.id)).total).toBe(1);
    expect(commandsOf(link)).toEqual([]);
  });

  it('a forged publish does not reserve its messageId, even if it has a publishId: the real sender can still use it [C-7.3]', async () => {
    const { partner } = await setScene({ gateway: 'listening' });
    const publishId = crypto.randomUUID();
    const forged = charge(49, { signature: 'mismatch', publishId });
    await partner.submit(forged);
    const honest = charge(5, { messageId: forged.messageId, publishId: crypto.randomUUID() });
    expect(await partner.acknowledge(honest)).toMatchObject({ status: 'ACCEPTED' });
  });

  it('is rejected again each time if it has no publishId, with another log row [rule 5]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const one = charge(5, { signature: 'missing' });
    await partner.submit(one);
    await partner.submit(one);
    expect((await readCommands(plant.id)).total).toBe(2);
  });
});

describe('a batch after its deadline', () => {
  it('is not recorded, because its publishes were already answered with basic.nack [C-6.4]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const batch = partner.batchOf([
      charge(),
      submission('emergency', { type: 'STOP' }),
      charge(5, { signature: 'missing' }),
    ]);
    const { outcomes, events } = await siteOf(plant.id).submit({ ...batch, notAfterMs: START_MS - 1 });
    expect(outcomes).toEqual(['failed', 'failed', 'failed']);
    expect(events).toEqual([]);
    for (const table of ['command', 'dispatch', 'message_id', 'outbox']) {
      const where = table === 'outbox' ? `WHERE lane <> 'registry'` : '';
      expect([table, await numberOf(plant.id, `SELECT count(*) FROM ${table} ${where}`)]).toEqual([table, 0]);
    }
    await partner.submit(charge());
    await nthCommand(link, 1);
    expect(commandsOf(link)).toHaveLength(1);
  });

  it('is recorded until its deadline, and when the Vhost sends it again with a later one [C-6.4]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const [inTime, one] = [charge(), charge()];
    const notAfterMs = START_MS + 8 * SECOND;
    setClock(notAfterMs);
    const last = await siteOf(plant.id).submit({ ...partner.batchOf([inTime]), notAfterMs });
    expect(last.outcomes).toEqual(['recorded']);
    setClock(notAfterMs + 1);
    const late = await siteOf(plant.id).submit({ ...partner.batchOf([one]), notAfterMs });
    expect(late.outcomes).toEqual(['failed']);
    expect((await readCommands(plant.id)).total).toBe(1);
    const again = await siteOf(plant.id).submit({
      ...partner.batchOf([one]),
      notAfterMs: notAfterMs + 8 * SECOND,
    });
    expect(again.outcomes).toEqual(['recorded']);
    expect((await readCommands(plant.id)).total).toBe(2);
  });

  it('is not recorded either if the deadline passed while the batch waited for a read of the registry [C-6.4]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const notAfterMs = START_MS + 8 * SECOND;
    watchRegistry(() => setClock(notAfterMs + 1));
    const { outcomes } = await siteOf(plant.id).submit({ ...partner.batchOf([charge()]), notAfterMs });
    expect(outcomes).toEqual(['failed']);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM command')).toBe(0);
  });
});
