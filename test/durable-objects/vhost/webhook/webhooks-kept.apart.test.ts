/** What a webhook keeps: through crashes and evictions, of its attempts, and of events that the journal has dropped. */
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { backUp, lower, raise, readParts, restore } from '#workerd/backups.ts';
import { hand, range } from '#workerd/outbox-events.ts';
import { vhostRows } from '#workerd/partner.ts';
import { fillWithPlants } from '#workerd/registry-changes.ts';
import { setScene } from '#workerd/scene.ts';
import {
  alarmAt,
  ask,
  crash,
  DAY,
  evict,
  HOUR,
  MINUTE,
  passTime,
  quiet,
  SECOND,
  settle,
  stateOf,
  stopTime,
  storedState,
  unlimited,
  until,
} from '#workerd/webhook-scenes.ts';
import { createOrganization, type Key, vhostOf } from '#workerd/world.ts';
import { LIMIT } from '../../../../protocol/limits.ts';

stopTime();

/** The rows of older attempts, as their numbers of attempts. */
async function attemptRows(key: Key): Promise<number[]> {
  const query = 'SELECT attempt_count AS count FROM webhook_attempts ORDER BY position';
  return (await vhostRows<{ count: number }>(key, query)).map(({ count }) => count);
}

/** Counts the rows that the tables of webhooks write from now on. */
async function countRows(key: Key): Promise<() => Promise<number>> {
  await vhostRows(key, 'CREATE TABLE counted (name TEXT)');
  for (const table of ['webhook', 'webhook_attempts'])
    for (const write of ['INSERT', 'UPDATE', 'DELETE']) {
      const trigger = `CREATE TRIGGER counted_${table}_${write} AFTER ${write} ON ${table}`;
      await vhostRows(key, `${trigger} BEGIN INSERT INTO counted VALUES ('${table}'); END`);
    }
  return async () => (await vhostRows(key, 'SELECT name FROM counted')).length;
}

describe('a crash of the object', () => {
  it('loses no event while attempts are under way: the alarm alone wakes it, and posts them again [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    receiver.hold();
    await hand(key, siteId, 1, 12);
    await quiet(scene);
    const first = receiver.events.map(({ id }) => id);
    expect(receiver.numbers).toEqual(range(1, 5));
    await crash(key);
    receiver.answerWith(200);
    vi.setSystemTime(Date.now() + 20 * SECOND);
    expect(await runDurableObjectAlarm(vhostOf(key.id))).toBe(true);
    await until(key, () => receiver.delivered.length === 12);
    expect(receiver.delivered).toEqual(range(1, 12));
    expect(receiver.events.slice(5, 10).map(({ id }) => id)).toEqual(first);
    expect(receiver.faults).toEqual([]);
  });

  it('before it has stored what is delivered posts the same again, with the same ids [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await settle(scene);
    await hand(key, siteId, 1, 3);
    await quiet(scene);
    expect(receiver.delivered).toEqual([1, 2, 3]);
    await crash(key);
    vi.setSystemTime(Date.now() + 20 * SECOND);
    await runDurableObjectAlarm(vhostOf(key.id));
    await until(key, () => receiver.delivered.length === 6);
    const ids = receiver.events.map(({ id }) => id);
    expect(ids.slice(3)).toEqual(ids.slice(0, 3));
  });

  it('a second after the answers posts nothing again [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await hand(key, siteId, 1, 3);
    await settle(scene);
    await crash(key);
    vi.setSystemTime(Date.now() + 20 * SECOND);
    await runDurableObjectAlarm(vhostOf(key.id));
    await hand(key, siteId, 4, 1);
    await until(key, () => receiver.delivered.length === 4);
    await passTime(scene, MINUTE);
    expect(receiver.numbers).toEqual([1, 2, 3, 4]);
  });

  it('between two attempts keeps the time of the next one, and its alarm [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    receiver.answerWith(500);
    await hand(key, siteId, 1, 3);
    await passTime(scene, 10 * SECOND);
    const { nextAttemptAt } = (await stateOf(scene)).delivery;
    const count = receiver.events.length;
    await crash(key);
    receiver.answerWith(200);
    const nextMs = Date.parse(nextAttemptAt ?? '');
    await passTime(scene, nextMs - 1 - Date.now());
    expect(receiver.events).toHaveLength(count);
    await passTime(scene, 1);
    expect(receiver.delivered).toEqual([1, 2, 3]);
  });
});

describe('an eviction of the object', () => {
  it('leaves no alarm for an idle webhook [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await hand(key, siteId, 1, 3);
    await until(key, () => receiver.delivered.length === 3);
    await passTime(scene, HOUR);
    const before = receiver.posts.length;
    await evict(scene);
    // The next alarm is the one that deletes old events of the journal.
    expect(await alarmAt(key)).toBeGreaterThan(Date.now() + 6 * DAY);
    expect(receiver.posts).toHaveLength(before);
  });

  it('keeps how far the events are delivered, and that the receiver has agreed [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await hand(key, siteId, 1, 30);
    await until(key, () => receiver.delivered.length === 30);
    const before = await stateOf(scene);
    await evict(scene);
    expect(await stateOf(scene)).toEqual(before);
    await hand(key, siteId, 31, 2);
    await until(key, () => receiver.delivered.length === 32);
    await quiet(scene);
    expect(receiver.posts.map(({ type }) => type).filter((type) => type !== 'ack')).toEqual([
      'webhook.verify',
    ]);
    expect(receiver.numbers).toEqual(range(1, 32));
  });

  it('stops nothing if the copy of the registry is too large to be stored [C-12.4]', async () => {
    const organization = await createOrganization();
    await fillWithPlants(organization);
    const { scene, key, siteId, receiver } = await setScene({ organization, webhook: 'enabled' });
    await hand(key, siteId, 1, 1);
    await until(key, () => receiver.delivered.length === 1);
    const stored = await vhostRows(key, `SELECT value FROM fact WHERE name = 'registry' AND value <> 'null'`);
    expect(stored).toEqual([]);
    await evict(scene);
    await hand(key, siteId, 2, 2);
    await until(key, () => receiver.delivered.length === 3);
    receiver.answerWith(500);
    await hand(key, siteId, 4, 1);
    await quiet(scene);
    await evict(scene);
    receiver.answerWith(200);
    await passTime(scene, MINUTE);
    expect(receiver.delivered).toEqual([1, 2, 3, 4]);
  });

  it('keeps the cursor after many events that the webhook does not want: none counts as missed [C-12.4]', async () => {
    const scene = await setScene({ settings: { journalRetentionDays: 1 }, webhook: { types: ['alarm'] } });
    const { key, siteId, receiver } = scene;
    await evict(scene);
    await hand(key, siteId, 1, 300, { kind: 'ack' });
    await settle(scene);
    await evict(scene);
    await passTime(scene, 3 * DAY);
    expect(await vhostRows(key, 'SELECT first FROM journal')).toEqual([]);
    await evict(scene);
    await hand(key, siteId, 301, 1, { kind: 'alarm' });
    await until(key, () => receiver.delivered.length === 1);
    expect((await stateOf(scene)).delivery).toMatchObject({ missedBefore: null });
  });
});

describe('a backup of the key', () => {
  it('loses no event while attempts are under way [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'trusted' });
    receiver.hold();
    await hand(key, siteId, 1, 12);
    await quiet(scene);
    const object = { object: 'key', id: key.id } as const;
    const fence = await raise(object);
    vi.clearAllTimers();
    receiver.answerWith(200);
    await readParts(object, fence);
    expect(receiver.numbers).toEqual(range(1, 5));
    await lower(object, fence);
    await passTime(scene, MINUTE);
    expect(receiver.delivered).toEqual(range(1, 12));
  });

  it('does not bring back how far the events were delivered: a restore posts nothing again [C-12.4]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await hand(key, siteId, 1, 3);
    await settle(scene);
    const object = { object: 'key', id: key.id } as const;
    const text = await backUp(object);
    vi.clearAllTimers();
    await hand(key, siteId, 4, 3);
    await settle(scene);
    await restore(object, text);
    vi.clearAllTimers();
    await passTime(scene, MINUTE);
    expect(receiver.delivered).toEqual(range(1, 6));
    expect(await stateOf(scene)).toMatchObject({ status: 'ENABLED' });
  });
});

describe('the attempts of a webhook', () => {
  it('are the last 200: older ones are deleted, many in a row at a time [C-12.4]', async () => {
    const scene = await setScene({ organization: await unlimited(), webhook: 'enabled' });
    const { key, siteId, receiver } = scene;
    for (let batch = 0; batch < 20; batch++) {
      await hand(key, siteId, 1 + 50 * batch, 50);
      await settle(scene);
    }
    expect(receiver.delivered).toHaveLength(1_000);
    const rows = await attemptRows(key);
    expect(rows.reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(LIMIT.webhookAttemptsKept);
    expect(rows.length).toBeLessThanOrEqual(12);
    await evictDurableObject(vhostOf(key.id));
    const { attempts } = await ask(scene, { kind: 'attempts' });
    const { lastSequence } = (await stateOf(scene)).delivery;
    expect(attempts.map(({ sequence }) => sequence)).toEqual(range(lastSequence - 199, 200));
    const ids = receiver.events.slice(-200).map(({ id }) => id);
    expect(attempts.map(({ messageId }) => messageId)).toEqual(ids);
    expect(attempts.at(-1)).toMatchObject({ type: 'ack', isDelivered: true, status: 200, answer: 'thanks' });
  });

  it('have the first KiB of the answer, however large it is and whatever its bytes are [C-12.4]', async () => {
    const scene = await setScene({ organization: await unlimited(), webhook: 'enabled' });
    const { key, siteId, receiver } = scene;
    receiver.answer = () => new Response('\u0001'.repeat(100_000));
    for (let batch = 0; batch < 4; batch++) {
      await hand(key, siteId, 1 + 250 * batch, 250);
      await settle(scene);
    }
    expect(receiver.delivered).toHaveLength(1_000);
    await evictDurableObject(vhostOf(key.id));
    const { attempts } = await ask(scene, { kind: 'attempts' });
    expect(attempts).toHaveLength(200);
    expect(attempts[0]?.answer).toBe('\u0001'.repeat(LIMIT.webhookAnswerBytes));
  });

  it('cost with the state at most 0.2 rows an event: 100 events in ten seconds [C-12.1]', async () => {
    const { scene, key, siteId, receiver } = await setScene({ webhook: 'enabled' });
    await settle(scene);
    const rows = await countRows(key);
    for (let batch = 0; batch < 10; batch++) {
      await hand(key, siteId, 1 + 10 * batch, 10);
      await settle(scene);
    }
    expect(receiver.delivered).toHaveLength(100);
    expect(await rows()).toBeGreaterThan(0);
    expect(await rows()).toBeLessThanOrEqual(20);
  });
});

describe('events that the journal has dropped before their turn', () => {
  it('are noted as missed, and the delivery goes on with those that are kept [C-12.4]', async () => {
    const scene = await setScene({ settings: { journalRetentionDays: 1 }, webhook: 'enabled' });
    const { key, siteId, receiver } = scene;
    receiver.answerWith(500);
    await hand(key, siteId, 1, 20);
    await passTime(scene, 30 * HOUR);
    expect(await stateOf(scene)).toMatchObject({ status: 'ENABLED', delivery: { missedBefore: null } });
    await hand(key, siteId, 21, 2);
    receiver.answerWith(200);
    await passTime(scene, 3 * HOUR);
    expect(receiver.delivered).toEqual([21, 22]);
    const { delivery } = await stateOf(scene);
    expect(delivery).toMatchObject({
      missedBefore: delivery.lastSequence - 1,
      deliveredUpTo: delivery.lastSequence,
      failures: 0,
    });
    await settle(scene);
    expect(await storedState(key)).toMatchObject({ missedBefore: delivery.lastSequence - 1 });
  });
});
