/** A Site that was set back to an earlier state: what it tells from then on is taken, and is nobody's repeat (rule 5). */
import { describe, expect, it } from 'vitest';
import { DAY, holdClock, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import { evictSite, rowsOf } from '#workerd/site-rows.ts';
import { newHeardSite, newSite } from '#workerd/site-scenes.ts';
import { charge, Submitter } from '#workerd/site-submissions.ts';
import { siteOf } from '#workerd/world.ts';

holdClock();

/** The site as it was before it ever had a command: a backup of its storage, restored. */
async function restore(siteId: string): Promise<void> {
  for (const table of ['outbox', 'dispatch', 'message_id', 'command']) {
    await rowsOf(siteId, `DELETE FROM ${table}`);
  }
  await rowsOf(siteId, 'UPDATE counters SET outbox_sequence = 0');
  await evictSite(siteId);
}

/** A site that has told its partner of some commands, restored: nothing of them is known there, but the Vhost has seen them. */
async function newRestoredSite(toldBefore: number) {
  const scene = await newHeardSite();
  const { plant, key, listener } = scene;
  const before = new Submitter(plant.id, key.id);
  await before.submit(...Array.from({ length: toldBefore }, () => charge()));
  await passTime(plant.id, 10 * SECOND);
  await listener.link.next(() => listener.events('ack').length >= toldBefore);
  await restore(plant.id);
  setClock(Date.now() + SECOND);
  return { ...scene, seen: listener.events('ack').map((event) => event.messageId) };
}

describe('a site that was restored', () => {
  it('has its acknowledgements and executions taken: 125 commands before, and as many after [rule 5]', async () => {
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

  it('says nothing under the messageId of an event of before: ids come from the command, not its place [C-8.1]', async () => {
    const { plant, key, listener, seen } = await newRestoredSite(3);
    await new Submitter(plant.id, key.id).submit(charge(), charge(), charge());
    await passTime(plant.id, 10 * SECOND);
    await listener.link.next(() => listener.events('ack').length >= 6);
    const ids = listener.events('ack').map((event) => event.messageId);
    expect(ids.slice(0, 3)).toEqual(seen);
    expect(new Set(ids).size).toBe(6);
  });

  it('numbers its events from its clock: behind a counter that was lost, and never behind itself [rule 10]', async () => {
    const { plant } = await newSite();
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

  it('keeps counting where its counter is ahead of the clock [rule 10]', async () => {
    const { plant } = await newSite();
    const ahead = START_MS * 1_000 + 9_000_000;
    await rowsOf(plant.id, `UPDATE counters SET outbox_sequence = ${ahead}`);
    await evictSite(plant.id);
    const partner = new Submitter(plant.id);
    await partner.submit(charge());
    expect(partner.events[0]?.sequence).toBeGreaterThan(ahead);
  });

  it('raises its counter first when a Vhost says that it has seen more [rule 5]', async () => {
    const { plant } = await newSite();
    const partner = new Submitter(plant.id);
    const received = START_MS * 1_000 + 7_000_000;
    const { events } = await siteOf(plant.id).submit({ ...partner.batchOf([charge()]), received });
    expect(events.map((event) => event.kind)).toEqual(['ack']);
    expect(events.every((event) => event.sequence > received)).toBe(true);
    await evictSite(plant.id);
    const again = await siteOf(plant.id).submit({ ...partner.batchOf([charge()]), received });
    expect(again.events.filter((event) => event.sequence > received)).toHaveLength(2);
  });
});
