/**
 * A Site restored to an earlier state: its new events are accepted and are not mistaken for repeats (rule 5).
 */
import { setScene } from '#workerd/scene.ts';
import { DAY, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import { evictSite, rowsOf } from '#workerd/site-rows.ts';
import { charge, Submitter } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { siteOf } from '#workerd/world.ts';

/** Restores the site as it was before its first command, as from a backup of its storage. */
async function restore(siteId: string): Promise<void> {
  for (const table of ['outbox', 'dispatch', 'message_id', 'command']) {
    await rowsOf(siteId, `DELETE FROM ${table}`);
  }
  await rowsOf(siteId, 'UPDATE counters SET outbox_sequence = 0');
  await evictSite(siteId);
}

/** A restored site whose earlier events the Vhost has seen, although the site does not know them. */
async function newRestoredSite(acksBefore: number) {
  const { scene, plant, partner, listener } = await setScene({ plant: true, partner: 'listening' });
  await partner.submit(...Array.from({ length: acksBefore }, () => charge()));
  await passTime(plant.id, 10 * SECOND);
  await listener.link.next(() => listener.events('ack').length >= acksBefore);
  await restore(plant.id);
  setClock(Date.now() + SECOND);
  return { ...scene, seen: listener.events('ack').map((event) => event.messageId) };
}

describe('a restored site', () => {
  it('sends 125 new acknowledgements and executions, and its Vhost accepts all, after 125 earlier ones [rule 5]', async () => {
    const { plant, key, listener } = await newRestoredSite(125);
    const link = await connectListening(plant);
    const after = Array.from({ length: 125 }, () => charge());
    await new Submitter(plant.id, key.id).submit(...after);
    for (let n = 1; n <= after.length; n++) {
      await sendAck(link, plant.gateway, (await nthCommand(link, n)).cmdId, 'COMPLETED');
    }
    await passTime(plant.id, 10 * SECOND);
    await listener.link.next(() => listener.events('execution').length >= 2 * after.length);
    const acknowledged = listener
      .events('ack')
      .slice(125)
      .map((event) => event.correlationId);
    expect(acknowledged).toEqual(after.map((one) => one.messageId));
    const completed = listener.events('execution').filter((event) => event.payload.status === 'COMPLETED');
    expect(completed).toHaveLength(125);
  });

  it('does not reuse the messageId of an earlier event, because an id depends on the command, not on the sequence [C-8.1]', async () => {
    const { plant, key, listener, seen } = await newRestoredSite(3);
    await new Submitter(plant.id, key.id).submit(charge(), charge(), charge());
    await passTime(plant.id, 10 * SECOND);
    await listener.link.next(() => listener.events('ack').length >= 6);
    const ids = listener.events('ack').map((event) => event.messageId);
    expect(ids.slice(0, 3)).toEqual(seen);
    expect(new Set(ids).size).toBe(6);
  });

  it('numbers its events from the clock: a day later above all earlier numbers, although the counter was lost [rule 10]', async () => {
    const { plant } = await setScene({ plant: true });
    const sequences: number[] = [];
    for (const at of [START_MS, START_MS, START_MS + DAY]) {
      setClock(at);
      const partner = new Submitter(plant.id);
      await partner.submit(charge(), charge());
      sequences.push(...partner.events.map((event) => event.sequence));
      await restore(plant.id);
    }
    expect(sequences.slice(4).every((sequence) => sequence > Math.max(...sequences.slice(0, 4)))).toBe(true);
    expect(sequences.every(Number.isSafeInteger)).toBe(true);
  });

  it('numbers its next event above the stored counter, even if the counter is ahead of the clock [rule 10]', async () => {
    const { plant } = await setScene({ plant: true });
    const ahead = START_MS * 1_000 + 9_000_000;
    await rowsOf(plant.id, `UPDATE counters SET outbox_sequence = ${ahead}`);
    await evictSite(plant.id);
    const partner = new Submitter(plant.id);
    await partner.submit(charge());
    expect(partner.events[0]?.sequence).toBeGreaterThan(ahead);
  });

  it('numbers its new events above the highest sequence that a Vhost reports [rule 5]', async () => {
    const { plant } = await setScene({ plant: true });
    const partner = new Submitter(plant.id);
    const received = START_MS * 1_000 + 7_000_000;
    const { events } = await siteOf(plant.id).submit({
      ...partner.batchOf([charge()]),
      received,
      seen: received,
    });
    expect(events.map((event) => event.kind)).toEqual(['ack']);
    expect(events.every((event) => event.sequence > received)).toBe(true);
    await evictSite(plant.id);
    const again = await siteOf(plant.id).submit({ ...partner.batchOf([charge()]), received, seen: received });
    expect(again.events.filter((event) => event.sequence > received)).toHaveLength(2);
  });
});
