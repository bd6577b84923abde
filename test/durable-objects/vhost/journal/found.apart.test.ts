/** When the journal stored the events of commands, and when readers confirmed them: for timelines [C-13.2]. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { hand, outboxEvents } from '#workerd/outbox-events.ts';
import { type Partner, vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { countRowsRead } from '#workerd/site-statements.ts';
import { createKey, createOrganization, type Key, vhostOf } from '#workerd/world.ts';
import type { OutboxEvent } from '../../../../durable-objects/rpc.ts';
import { VHOST_BOUNDS } from '../../../../durable-objects/vhost/bounds.ts';

const START_MS = Date.parse('2030-03-05T12:00:00.000Z');
const SECOND = 1_000;
const siteId = '9d0f4f2c-1111-4222-8333-444455556666';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: START_MS });
});

async function pass(key: Key, ms: number): Promise<void> {
  await runInDurableObject(vhostOf(key.id), () => vi.advanceTimersByTimeAsync(ms));
}

async function send(key: Key, ...events: OutboxEvent[]): Promise<void> {
  await vhostOf(key.id).receive(siteId, events);
}

function eventOf(sequence: number, kind: 'ack' | 'execution' | 'alarm' | 'telemetry' = 'ack'): OutboxEvent {
  return { ...(outboxEvents(sequence, 1, { kind })[0] as OutboxEvent), sequence };
}

/** What the journal knows of events; times in seconds since the start. */
async function found(key: Key, ...events: OutboxEvent[]) {
  const searches = events.map(({ messageId, atMs }) => ({ messageId, madeAtMs: atMs }));
  const all = await vhostOf(key.id).findEvents(searches);
  const seconds = (atMs: number) => (atMs - START_MS) / SECOND;
  return events.map((event) => {
    const one = all.find(({ messageId }) => messageId === event.messageId);
    if (!one) return null;
    const confirmed = one.confirmed.map(({ atMs, by }) => `${seconds(atMs)} ${by}`);
    return { stored: one.storedAtMs === null ? null : seconds(one.storedAtMs), confirmed };
  });
}

/** Acknowledges the delivery with this number, from 1. */
async function acknowledge(partner: Partner, number: number): Promise<void> {
  const lease = (await partner.delivered(number)).at(-1)?.lease ?? 0;
  partner.link.send({ kind: 'settle', outcome: 'ack', leases: [lease] });
  await partner.quiet();
}

async function consumer(noAck = false) {
  const scene = await setScene({ consumes: { queue: 'event.status', noAck } });
  return { ...scene, queue: `queue ${scene.partner.queueName('event.status')}` };
}

describe('an event of a command', () => {
  it('was stored when the journal stored it, not when it was made, and nobody has confirmed it yet', async () => {
    const { key } = await consumer();
    const event = eventOf(1);
    await send(key, event);
    expect(await found(key, event, eventOf(2))).toEqual([null, null]);
    await pass(key, SECOND);
    expect(await found(key, event, eventOf(2))).toEqual([{ stored: 1, confirmed: [] }, null]);
  });

  it('was delivered when the client acknowledged it, whether before it was stored or long after', async () => {
    const { key, partner, queue } = await consumer();
    const [early, late] = [eventOf(1), eventOf(2)];
    await send(key, early);
    await acknowledge(partner, 1);
    await pass(key, SECOND);
    await send(key, { ...late, atMs: Date.now() });
    await pass(key, 5 * SECOND);
    await hand(key, siteId, 100, 200, { chars: 500, kind: 'alarm' });
    await pass(key, SECOND);
    await acknowledge(partner, 2);
    await pass(key, SECOND);
    expect(await found(key, early, { ...late, atMs: START_MS + SECOND })).toEqual([
      { stored: 1, confirmed: [`0 ${queue}`] },
      { stored: 2, confirmed: [`7 ${queue}`] },
    ]);
  });

  it('was delivered when it was sent to a client that acknowledges nothing', async () => {
    const { key, queue } = await consumer(true);
    const event = eventOf(1);
    await send(key, event);
    await pass(key, SECOND);
    expect(await found(key, event)).toEqual([{ stored: 1, confirmed: [`0 ${queue}`] }]);
  });

  it('was not delivered when the client put it back', async () => {
    const { key, partner } = await consumer();
    const event = eventOf(1);
    await send(key, event);
    const [{ lease = 0 } = {}] = await partner.delivered(1);
    partner.link.send({ kind: 'settle', outcome: 'requeue', leases: [lease] });
    await partner.quiet();
    await pass(key, SECOND);
    expect(await found(key, event)).toEqual([{ stored: 0, confirmed: [] }]);
  });

  it('is known after a sleep, and an acknowledgement after a sleep counts', async () => {
    const { key, partner, queue } = await consumer();
    const event = eventOf(1);
    await send(key, event);
    await partner.delivered(1);
    await pass(key, SECOND);
    await evictDurableObject(vhostOf(key.id));
    await pass(key, 30 * SECOND);
    await acknowledge(partner, 1);
    await pass(key, SECOND);
    await evictDurableObject(vhostOf(key.id));
    expect(await found(key, event)).toEqual([{ stored: 1, confirmed: [`31 ${queue}`] }]);
  });

  it('costs no row of its own: the marks are in the row of the events', async () => {
    const { key, partner } = await consumer();
    await send(key, eventOf(1));
    await acknowledge(partner, 1);
    await pass(key, SECOND);
    const changes = async () =>
      await runInDurableObject(
        vhostOf(key.id),
        (_, { storage }) => storage.sql.exec<{ n: number }>('SELECT total_changes() AS n').one().n,
      );
    const before = await changes();
    await send(key, eventOf(2));
    await acknowledge(partner, 2);
    await pass(key, SECOND);
    // The row of the journal, and how far the outbox is stored.
    expect((await changes()) - before).toBe(2);
  });
});

describe('other events', () => {
  it('are not marked: no timeline has them', async () => {
    const { key, partner } = await consumer();
    await partner.consume('event.alarm', { tag: 'alarms', noAck: true });
    await send(key, eventOf(1, 'alarm'));
    await pass(key, SECOND);
    const [row] = await vhostRows<{ marks: string }>(key, 'SELECT marks FROM journal');
    expect(row?.marks).toMatch(/^\[\d+,\d+,\d+\]\n$/);
  });
});

describe('what is read and kept', () => {
  it('reads few rows, however long the journal is', async () => {
    const key = await createKey(await createOrganization());
    const first = eventOf(1);
    await send(key, first);
    for (let batch = 0; batch < 60; batch++) {
      vi.setSystemTime(Date.now() + SECOND);
      await hand(key, siteId, 2 + batch * 40, 40, { chars: 600 });
    }
    const last = { ...eventOf(10_000), atMs: Date.now() };
    await send(key, last);
    const rows = await vhostRows(key, 'SELECT first FROM journal');
    expect(rows.length).toBeGreaterThan(40);
    const count = await countRowsRead(siteId);
    const searches = [first, last].map(({ messageId, atMs }) => ({ messageId, madeAtMs: atMs }));
    expect(await vhostOf(key.id).findEvents(searches)).toHaveLength(2);
    expect(await count()).toBeLessThanOrEqual(24);
    vi.restoreAllMocks();
  });

  it('leaves out marks of a row that do not fit, and the events are found all the same', async () => {
    const { key, partner, queue } = await consumer();
    const event = eventOf(1);
    await send(key, event);
    await acknowledge(partner, 1);
    await pass(key, SECOND);
    const fill = `["x",1,"${'y'.repeat(VHOST_BOUNDS.journalMarksChars)}"]\n`;
    await runInDurableObject(vhostOf(key.id), (_, { storage }) => {
      storage.sql.exec('UPDATE journal SET marks = marks || ?', fill);
    });
    const next = { ...eventOf(2), atMs: Date.now() };
    await send(key, next);
    await acknowledge(partner, 2);
    await pass(key, SECOND);
    expect(await found(key, event, next)).toEqual([
      { stored: 1, confirmed: [`0 ${queue}`] },
      { stored: 2, confirmed: [] },
    ]);
  });

  it('notes only as many confirmations as a row may have', async () => {
    const { key, partner } = await consumer();
    const events = outboxEvents(1, 400);
    await send(key, ...events);
    const leases = (await partner.delivered(400)).map(({ lease }) => lease);
    partner.link.send({ kind: 'settle', outcome: 'ack', leases });
    await partner.quiet();
    await pass(key, SECOND);
    const rows = await vhostRows<{ chars: number }>(key, 'SELECT length(marks) AS chars FROM journal');
    for (const { chars } of rows) expect(chars).toBeLessThanOrEqual(VHOST_BOUNDS.journalMarksChars + 200);
    const all = await found(key, ...events.slice(0, 10));
    expect(all.every((one) => one?.confirmed.length === 1)).toBe(true);
  });

  it('is nothing once the key has ended', async () => {
    const key = await createKey(await createOrganization());
    const event = eventOf(1);
    await send(key, event);
    await vhostOf(key.id).revoke();
    expect(await found(key, event)).toEqual([null]);
  });
});
