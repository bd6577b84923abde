/**
 * The cost of a device command: rows that its Site and its Vhost write from the publish to the partner's
 * acknowledgement of its last event. Each alarm that is set counts as a row, as on the bill [rule 9].
 */
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ackMessage, type DeviceTestLink } from '#workerd/links.ts';
import { charge, eventOf, type Partner } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { START_MS } from '#workerd/site-clock.ts';
import { type Key, type Plant, siteOf, vhostOf } from '#workerd/world.ts';
import { exposeMetrics } from '../../durable-objects/metrics/report.ts';
import { Metrics } from '../../durable-objects/metrics.ts';

/** After this time the Vhost stores which events it has received. */
const STORE_MS = 1_000;
/** Fewer than the burst that a key may publish, because the clock stands still. */
const COMMANDS = 150;
/** Rows of the journal for each event: many events share a row [C-12.1]. */
const JOURNAL_ROWS = 0.2;
/** Rows that occur only once: the first alarms, and the first sequences that the outbox reserves. */
const ONCE = 5;

/** The clock stands still: nothing but the commands costs rows. */
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: START_MS });
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** A partner that consumes the events of commands, and a gateway that executes each at once. */
async function openScene() {
  const scene = await setScene({ gateway: 'listening', consumes: 'event.status' });
  await scene.partner.consume('event.execution');
  // A new site has work for its first alarm, whose rows do not count.
  await runDurableObjectAlarm(siteOf(scene.plant.id));
  // Only the rows of Site and Vhost count, so the objects of the metrics are made before and store nothing.
  await exposeMetrics(env, '');
  vi.spyOn(Metrics.prototype, 'add').mockReturnValue(undefined);
  const rows = await countRowsWritten(scene.plant);
  return { ...scene, rows };
}

/** Returns a function that counts the rows and alarms that all objects wrote since its previous call. */
async function countRowsWritten(plant: Plant): Promise<() => Promise<number>> {
  const inSite = async <Value>(work: (storage: DurableObjectStorage) => Value) =>
    await runInDurableObject(siteOf(plant.id), (_site, { storage }) => work(storage));
  const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
  const setAlarm = await inSite((storage) => {
    const prototype = Object.getPrototypeOf(storage.sql) as SqlStorage;
    const { exec } = prototype;
    vi.spyOn(prototype, 'exec').mockImplementation(function (this: SqlStorage, query, ...bindings) {
      const cursor = exec.call(this, query, ...bindings);
      if (!query.startsWith('SELECT')) cursors.push(cursor);
      return cursor as never;
    });
    return vi.spyOn(Object.getPrototypeOf(storage) as DurableObjectStorage, 'setAlarm');
  });
  return async () => {
    const alarms = setAlarm.mock.calls.length;
    setAlarm.mockClear();
    const written = await inSite(() => cursors.splice(0).map(({ rowsWritten }) => rowsWritten));
    return written.reduce((sum, rows) => sum + rows, alarms);
  };
}

/** Publishes a command, has the gateway execute it, and acknowledges its events. */
async function complete(partner: Partner, gateway: DeviceTestLink, plant: Plant): Promise<void> {
  const eventCount = partner.deliveries().length;
  const commandCount = commandsOf(gateway).length;
  expect(await partner.ask(partner.command(plant.id, 'device', charge()))).toMatchObject({ kind: 'stored' });
  await gateway.next(() => commandsOf(gateway).length > commandCount);
  const { cmdId } = JSON.parse(commandsOf(gateway).at(-1) ?? '');
  const payload = ackMessage(plant.gateway, cmdId, 'COMPLETED');
  gateway.send({ kind: 'publish', seq: commandCount + 1, topic: 'ack', payload });
  const events = (await partner.delivered(eventCount + 3)).slice(eventCount);
  expect(events.map((event) => eventOf(event).payload.status)).toEqual([
    'ACCEPTED',
    'EXECUTING',
    'COMPLETED',
  ]);
  partner.settle('ack', events);
  await partner.quiet();
}

/** Lets the Vhost store what it has only in memory. */
async function store(key: Key): Promise<void> {
  await runInDurableObject(vhostOf(key.id), () => vi.advanceTimersByTimeAsync(STORE_MS));
}

function commandsOf(gateway: DeviceTestLink): string[] {
  return gateway.received.flatMap((frame) => (frame.kind === 'command' ? [frame.payload] : []));
}

describe('a device command whose events are acknowledged at once', () => {
  it('costs 13 rows in Site and Vhost together if others follow it, and those of the journal [rule 9]', async () => {
    const { key, partner, plant, link, rows } = await openScene();
    await complete(partner, link, plant);
    await rows();
    for (let count = 0; count < COMMANDS; count++) await complete(partner, link, plant);
    // The Site deletes its copies of the last events with a turn after the Vhost has stored its journal.
    await store(key);
    await complete(partner, link, plant);
    const written = await rows();
    expect(written).toBeGreaterThanOrEqual(13 * COMMANDS);
    expect(written).toBeLessThanOrEqual(13 * COMMANDS + ONCE + JOURNAL_ROWS * 3 * COMMANDS);
  });

  it('costs 15 rows if no other follows it, because the Vhost then also stores its events and where they came from [rule 9]', async () => {
    const { key, partner, plant, link, rows } = await openScene();
    const alone = async () => {
      await complete(partner, link, plant);
      await store(key);
      return await rows();
    };
    await alone();
    expect([await alone(), await alone()]).toEqual([15, 15]);
  });
});
