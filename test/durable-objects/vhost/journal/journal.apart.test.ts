/** The event journal of a key: its order, its sequences, what it keeps, and what survives a sleep or a crash. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { hand, numbers, passingEvents, range, taken } from '#workerd/outbox-events.ts';
import { vhostRows } from '#workerd/partner.ts';
import { ACKS, setScene } from '#workerd/scene.ts';
import { createKey, createOrganization, type Key, vhostOf } from '#workerd/world.ts';
import type { JournalQuery } from '../../../../durable-objects/journal-rpc.ts';
import { LIMIT } from '../../../../protocol/limits.ts';

const DAY = 86_400_000;
const START_MS = Date.parse('2030-03-05T12:00:00.000Z');

interface Read {
  events: { sequence: number; routingKey: string; event: string }[];
  next: number;
  firstKept: number;
  last: number;
  gap: boolean;
}

beforeEach(() => {
  // Telemetry is stored by an alarm, so the clock stops until a test moves it.
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: START_MS });
});

async function readJournal(key: Key, query: Partial<JournalQuery> = {}): Promise<Read> {
  const answer = await vhostOf(key.id).readJournal({ after: 0, limit: 500, ...query });
  if ('refused' in answer) throw new Error(answer.refused);
  const { items, ...page } = answer;
  return { ...page, events: JSON.parse(`[${items}]`) };
}

/** The numbers that `outboxEvents` gave the events. */
function numbersOf({ events }: Read): number[] {
  return events.map(({ event }) => JSON.parse(event).payload.n);
}

async function rowsOf(key: Key) {
  return await vhostRows<{ first: number; event_count: number; chars: number }>(
    key,
    'SELECT first, event_count, length(data) AS chars FROM journal ORDER BY first',
  );
}

/** The object restarts at once: what is only in memory is lost. */
async function crash(key: Key): Promise<void> {
  const crashed = runInDurableObject(vhostOf(key.id), (_, state) => state.abort('crash of a test'));
  await expect(crashed).rejects.toThrow('crash of a test');
  vi.clearAllTimers();
}

/** Stores what is only in memory, as the vhost does a second after an event. */
async function settle(key: Key): Promise<void> {
  await runInDurableObject(vhostOf(key.id), () => vi.advanceTimersByTimeAsync(1_000));
}

describe('the event journal of a key', () => {
  it('has the events of all kinds in their order, each text as AMQP delivers it [C-12.1]', async () => {
    const { organization, key, partner, siteId } = await setScene({ partner: 'connected' });
    const kinds = ['ack', 'execution', 'alarm', 'telemetry'] as const;
    for (const kind of kinds)
      await partner.consume(kind === 'ack' ? 'event.status' : `event.${kind}`, { noAck: true });
    for (const [index, kind] of kinds.entries()) await hand(key, siteId, index + 1, 1, { kind });
    const delivered = await partner.delivered(4);
    const { events, firstKept, next, last, gap } = await readJournal(key);
    expect(events.map(({ event }) => event)).toEqual(delivered.map(({ body }) => body));
    expect(events.map(({ routingKey }) => routingKey)).toEqual(delivered.map((one) => one.routingKey));
    expect(events.map(({ routingKey }) => routingKey)).toEqual([
      `${organization.slug}.event.command.ack`,
      ...['execution', 'alarm', 'telemetry'].map((kind) => `${organization.slug}.event.${kind}`),
    ]);
    expect(events.map(({ sequence }) => sequence)).toEqual(range(START_MS, 4));
    expect({ firstKept, next, last, gap }).toEqual({
      ...{ firstKept: START_MS, next: START_MS + 3, last: START_MS + 3, gap: false },
    });
  });

  it('is filled although the key has never connected, and although it may not connect [C-12.1]', async () => {
    const { key } = await setScene({ key: { scopes: ['vcp:read'] } });
    expect(taken(await hand(key, crypto.randomUUID(), 1, 3))).toBe(3);
    expect(numbersOf(await readJournal(key))).toEqual([1, 2, 3]);
  });

  it('has no event of a plant that the key may not see [C-8.1]', async () => {
    const { key, siteId } = await setScene({
      partner: 'connected',
      key: { allowedPlantIds: [crypto.randomUUID()] },
    });
    const other = crypto.randomUUID();
    for (const kind of ['ack', 'execution', 'alarm'] as const) await hand(key, other, 1, 1, { kind });
    await vhostOf(key.id).receivePassing(other, passingEvents(1, 2));
    await hand(key, siteId, 7, 1);
    expect(numbersOf(await readJournal(key))).toEqual([7]);
  });

  it('cannot be read once the key is revoked, and is deleted [C-5.6]', async () => {
    const { key } = await setScene({ key: true, events: 3 });
    await readJournal(key);
    await vhostOf(key.id).revoke();
    expect(await vhostOf(key.id).readJournal({ after: 0, limit: 1 })).toEqual({ refused: 'ended' });
    expect(await rowsOf(key)).toEqual([]);
  });

  it('does not exist for a key that was not opened here', async () => {
    const answer = await vhostOf(crypto.randomUUID()).readJournal({ after: 0, limit: 1 });
    expect(answer).toEqual({ refused: 'none' });
  });
});

describe('a page of the journal', () => {
  it('continues after a sequence, and has as many events as asked for [C-12.2]', async () => {
    const { key } = await setScene({ key: true, events: 250 });
    const seen: number[] = [];
    let after = 0;
    for (let page = 0; page < 3; page++) {
      const read = await readJournal(key, { after, limit: 100 });
      seen.push(...numbersOf(read));
      after = read.next;
    }
    expect(seen).toEqual(range(1, 250));
    expect(await readJournal(key, { after })).toMatchObject({ events: [], next: after, gap: false });
  });

  it('skips other events with a filter, and `next` grows although none matches [C-12.2]', async () => {
    const { key, siteId } = await setScene({ key: true });
    const other = crypto.randomUUID();
    await hand(key, siteId, 1, 2, { kind: 'alarm' });
    await hand(key, other, 1, 2, { kind: 'ack' });
    await hand(key, siteId, 3, 1, { kind: 'ack' });
    expect(numbersOf(await readJournal(key, { kinds: ['alarm'] }))).toEqual([1, 2]);
    expect(numbersOf(await readJournal(key, { siteIds: [siteId] }))).toEqual([1, 2, 3]);
    expect(numbersOf(await readJournal(key, { siteIds: [siteId], kinds: ['ack'] }))).toEqual([3]);
    expect(await readJournal(key, { kinds: ['execution'] })).toMatchObject({
      events: [],
      next: START_MS + 4,
    });
  });

  it('is bounded in characters, so a few large events fill it [C-12.2]', async () => {
    const { key, siteId } = await setScene({ key: true });
    await hand(key, siteId, 1, 8, { chars: 200_000 });
    const first = await readJournal(key);
    expect(numbersOf(first)).toEqual([1, 2, 3]);
    expect(numbersOf(await readJournal(key, { after: first.next }))).toEqual([4, 5, 6]);
  });

  it('has the events of any site id, whatever its characters', async () => {
    const { key, partner } = await setScene({ partner: 'connected' });
    const siteId = 'a\t"b"\n\\\ud800é';
    await hand(key, siteId, 1, 1);
    await partner.quiet();
    const { events } = await readJournal(key, { siteIds: [siteId] });
    expect(events.map(({ event }) => JSON.parse(event).siteId)).toEqual([siteId]);
  });
});

describe('the sequences of the journal', () => {
  it('need no table of their own after a sleep, because the vhost remembers how far each outbox is stored', async () => {
    const { key, siteId } = await setScene({ key: true, events: 2 });
    await hand(key, crypto.randomUUID(), 1, 2);
    await settle(key);
    await evictDurableObject(vhostOf(key.id));
    await hand(key, siteId, 3, 1);
    await settle(key);
    expect(await vhostRows(key, 'SELECT * FROM journaled')).toEqual([]);
  });

  it('go on after a sleep, in the same row [C-12.1]', async () => {
    const { key, siteId } = await setScene({ key: true, events: 2 });
    await settle(key);
    await evictDurableObject(vhostOf(key.id));
    await hand(key, siteId, 3, 2);
    const { events, firstKept } = await readJournal(key);
    expect(events.map(({ sequence }) => sequence)).toEqual(range(firstKept, 4));
    expect(await rowsOf(key)).toMatchObject([{ event_count: 4 }]);
  });

  it('are given once: events that a site sends again after a crash are not added again [C-12.1]', async () => {
    const { key, siteId } = await setScene({ consumes: 'event.status' });
    const other = crypto.randomUUID();
    await hand(key, siteId, 1, 60, { chars: 2_000 });
    await hand(key, other, 1, 2);
    // The read stores the journal, but neither the queues nor how far the outboxes are stored.
    await readJournal(key);
    expect(await vhostRows(key, 'SELECT * FROM received')).toEqual([]);
    expect((await rowsOf(key)).length).toBeGreaterThan(2);
    await crash(key);
    // Only one site sends its events again before the vhost stores everything, and the object sleeps.
    await hand(key, siteId, 1, 61, { chars: 2_000 });
    await settle(key);
    await evictDurableObject(vhostOf(key.id));
    await hand(key, other, 1, 3);
    const { events } = await readJournal(key);
    const seen = events.map(({ event }) => [JSON.parse(event).siteId, JSON.parse(event).payload.n]);
    expect(seen).toEqual([
      ...range(1, 60).map((number) => [siteId, number]),
      ...[1, 2].map((number) => [other, number]),
      ...[
        [siteId, 61],
        [other, 3],
      ],
    ]);
    expect(events.map(({ sequence }) => sequence)).toEqual(range(START_MS, 64));
    expect(await vhostRows(key, 'SELECT * FROM journaled')).toEqual([]);
  });

  it('are not given to events that a crash takes from memory: their site sends them again [C-12.1]', async () => {
    const { key, siteId } = await setScene({ key: true, events: 1 });
    await readJournal(key);
    await hand(key, siteId, 2, 3);
    await crash(key);
    expect(taken(await hand(key, siteId, 2, 3))).toBe(4);
    expect(numbersOf(await readJournal(key))).toEqual([1, 2, 3, 4]);
  });

  it('begin after those of a journal that was lost with its object', async () => {
    const { key, siteId } = await setScene({ key: true, events: 3 });
    const before = await readJournal(key);
    vi.setSystemTime(START_MS + 5_000);
    const { key: later } = await setScene({ key: true });
    await hand(later, siteId, 1, 1);
    expect((await readJournal(later)).firstKept).toBeGreaterThan(before.last);
  });
});

describe('events that wait to be stored', () => {
  it('are kept by their site until they are in the journal, although a client has acknowledged them (rule 5)', async () => {
    const { key, partner, siteId } = await setScene({ consumes: 'event.status' });
    expect(await hand(key, siteId, 1, 3)).toEqual({ received: 0, seen: 3, gone: false });
    partner.settle('ack', await partner.delivered(3));
    await partner.quiet();
    expect(await hand(key, siteId, 1, 3)).toEqual({ received: 0, seen: 3, gone: false });
    await readJournal(key);
    expect(await hand(key, siteId, 1, 3)).toEqual({ received: 3, gone: false });
    expect(numbers(partner)).toEqual([1, 2, 3]);
  });

  it('share a row: 1 000 events in 100 turns write at most 0.2 rows each [C-12.1]', async () => {
    const { key, siteId } = await setScene({ consumes: ACKS });
    for (let turn = 0; turn < 100; turn++) await hand(key, siteId, 1 + 10 * turn, 10, { chars: 300 });
    await settle(key);
    expect(numbersOf(await readJournal(key, { limit: 500 }))).toHaveLength(500);
    const rows = await rowsOf(key);
    expect(rows.reduce((sum, { event_count: count }) => sum + count, 0)).toBe(1_000);
    // Each row is inserted once and updated a few times: four times 256 events are stored at once.
    expect(rows.length).toBeLessThan(50);
  });

  it('are stored at once if the key has no queues yet', async () => {
    const { key, siteId } = await setScene({ key: true });
    expect(await hand(key, siteId, 1, 2)).toEqual({ received: 2, gone: false });
    expect(await rowsOf(key)).toMatchObject([{ event_count: 2 }]);
  });

  it('are all stored when 256 of them wait', async () => {
    const { key, siteId } = await setScene({ consumes: ACKS });
    await hand(key, siteId, 1, 255);
    expect(await rowsOf(key)).toEqual([]);
    await hand(key, siteId, 256, 1);
    expect((await rowsOf(key)).reduce((sum, { event_count: count }) => sum + count, 0)).toBe(256);
  });

  it('set no alarm of their own if they are telemetry that comes rarely: each costs one row [C-12.1] [rule 10]', async () => {
    const { key, siteId } = await setScene({ consumes: ACKS });
    await readJournal(key);
    const alarm = () => runInDurableObject(vhostOf(key.id), (_, { storage }) => storage.getAlarm());
    await vhostOf(key.id).receivePassing(siteId, passingEvents(1, 1));
    const before = await alarm();
    vi.setSystemTime(Date.now() + 10_000);
    await vhostOf(key.id).receivePassing(siteId, passingEvents(2, 1));
    expect(await alarm()).toBe(before);
    expect(before).toBeGreaterThan(Date.now() + 30_000);
  });

  it('wait for other events if they are telemetry and all reads want other kinds [C-12.1]', async () => {
    const { key, siteId } = await setScene({ consumes: ACKS });
    await readJournal(key, { kinds: ['alarm', 'ack'] });
    await vhostOf(key.id).receivePassing(siteId, passingEvents(1, 1));
    expect(await rowsOf(key)).toEqual([]);
    await readJournal(key, { kinds: ['telemetry'] });
    await vhostOf(key.id).receivePassing(siteId, passingEvents(2, 1));
    expect(await rowsOf(key)).toMatchObject([{ event_count: 2 }]);
  });

  it('wait for other events if they are telemetry and nobody has read the journal for a week [C-12.1]', async () => {
    const { key, siteId } = await setScene({ consumes: ACKS });
    const stored = async () => (await rowsOf(key)).reduce((sum, { event_count: count }) => sum + count, 0);
    const pass = (number: number) => vhostOf(key.id).receivePassing(siteId, passingEvents(number, 1));
    await pass(1);
    expect(await stored()).toBe(0);
    expect(numbersOf(await readJournal(key))).toEqual([1]);
    await pass(2);
    expect(await stored()).toBe(2);
    await evictDurableObject(vhostOf(key.id));
    await pass(3);
    expect(await stored()).toBe(3);
    vi.setSystemTime(Date.now() + 7 * DAY);
    await pass(4);
    expect(await stored()).toBe(3);
    await hand(key, siteId, 5, 1);
    await settle(key);
    expect(await stored()).toBe(5);
  });

  it('are stored at once if they are telemetry that comes rarely, and by an alarm if it comes often [C-12.1]', async () => {
    const { key, siteId } = await setScene({ key: true });
    await readJournal(key);
    const pass = (number: number) => vhostOf(key.id).receivePassing(siteId, passingEvents(number, 1));
    const stored = async () => (await rowsOf(key)).reduce((sum, { event_count: count }) => sum + count, 0);
    for (const number of [1, 2, 3]) {
      await pass(number);
      expect(await stored()).toBe(number);
      vi.setSystemTime(Date.now() + 5_000);
    }
    vi.setSystemTime(Date.now() + 60_000);
    for (const number of range(4, 10)) await pass(number);
    expect(await stored()).toBe(6);
    vi.setSystemTime(Date.now() + 8_000);
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await stored()).toBe(13);
  });
});

describe('events that are too old or too many', () => {
  it('are deleted after 7 days, and after a wake; the sequence goes on, and readers see a gap [C-12.1]', async () => {
    const { key, siteId } = await setScene({ key: true, events: 3 });
    await settle(key);
    const { firstKept: first, last } = await readJournal(key);
    vi.setSystemTime(START_MS + 7 * DAY - 1);
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(numbersOf(await readJournal(key))).toEqual([1, 2, 3]);
    vi.setSystemTime(START_MS + 8 * DAY);
    await evictDurableObject(vhostOf(key.id));
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await rowsOf(key)).toEqual([]);
    const empty = { events: [], firstKept: last + 1, last, next: last };
    expect(await readJournal(key)).toEqual({ ...empty, gap: true });
    expect(await readJournal(key, { after: first })).toEqual({ ...empty, gap: true });
    expect(await readJournal(key, { after: last })).toEqual({ ...empty, gap: false });
    await evictDurableObject(vhostOf(key.id));
    await hand(key, siteId, 4, 1);
    const { events, gap } = await readJournal(key, { after: last });
    expect([events.map(({ sequence }) => sequence), gap]).toEqual([[last + 1], false]);
  });

  it.each([1, 30])(
    'are kept for %i days if the organization wants it, also by a key that no client has ever used [C-12.1]',
    async (days) => {
      const key = await createKey(await createOrganization({ journalRetentionDays: days }));
      await hand(key, crypto.randomUUID(), 1, 1);
      await settle(key);
      const countAt = async (ms: number) => {
        vi.setSystemTime(START_MS + ms);
        // The first alarm may read the settings, and an hour later the next one uses them.
        for (const hours of [0, 2]) {
          vi.setSystemTime(START_MS + ms + hours * 3_600_000);
          await runDurableObjectAlarm(vhostOf(key.id));
        }
        return (await rowsOf(key)).length;
      };
      expect(await countAt((Math.min(days, 8) - 0.5) * DAY)).toBe(1);
      expect(await countAt((days + 0.5) * DAY)).toBe(0);
    },
  );

  it('are deleted, the oldest first, when the journal has 256 MiB; the object wakes with the rest [C-12.1]', async () => {
    const { key, siteId } = await setScene({ key: true });
    for (const number of [1, 2, 3]) {
      await hand(key, siteId, number, 1, { chars: 25_000 });
      await settle(key);
    }
    const { firstKept: first } = await readJournal(key);
    expect(await rowsOf(key)).toHaveLength(3);
    // As if there had been as many bytes between the first and the second row as a journal may have.
    await runInDurableObject(vhostOf(key.id), (_, { storage }) => {
      const text = 'UPDATE journal SET bytes_before = bytes_before + ? WHERE first > ?';
      storage.sql.exec(text, LIMIT.journalBytes, first);
    });
    await evictDurableObject(vhostOf(key.id));
    await hand(key, siteId, 4, 1);
    await settle(key);
    await evictDurableObject(vhostOf(key.id));
    const read = await readJournal(key, { after: first - 1 });
    expect([numbersOf(read), read.gap, read.firstKept]).toEqual([[2, 3, 4], true, first + 1]);
  });
});
