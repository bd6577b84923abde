/** The limits of the telemetry queue in size and age: beyond them whole chunks are dropped [C-6.4]. */
import { runInDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { telemetryQueue } from '#workerd/chunked-queues.ts';
import { type RunAt, turnsOf } from '#workerd/turns.ts';
import { vhostOf } from '#workerd/world.ts';
import { Sql } from '../../../../durable-objects/object/sql.ts';
import type { ChunkedQueue } from '../../../../durable-objects/vhost/queue/chunked-queue.ts';
import { type Message, QueueRows } from '../../../../durable-objects/vhost/queue/rows.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const MIB = 1024 * 1024;
/** An event that fills a chunk: 223 of them fit into 64 MiB. */
const WHOLE_CHUNK = 300_000;
const owner = { connectionId: 'connection-1', channel: 1, tag: null };

interface Bench {
  queue: ChunkedQueue;
  rows: QueueRows;
  runAt: RunAt;
  push(number: number, chars: number, now: number): void;
  /** Takes and settles the next event, and returns its number. */
  next(now: number): number | undefined;
  flush(): void;
}

/**
 * Works on a queue without its vhost, in the storage of a test object; each step is a turn, as in a vhost.
 */
async function onQueue<Value>(work: (bench: Bench) => Value): Promise<Value> {
  const stub = vhostOf(crypto.randomUUID());
  return await runInDurableObject(stub, (_vhost, state) => {
    const rows = new QueueRows(new Sql(state.storage));
    const isConnected = () => true;
    const queue = telemetryQueue(rows, isConnected);
    const runAt = turnsOf(state, (turn) => queue.save(turn));
    return work({
      queue,
      rows,
      runAt,
      push: (number, chars, now) => runAt(now, (turn) => queue.push(turn, message(number, chars, now))),
      next: (now) => {
        const taken = runAt(now, (turn) => queue.take(turn, owner, null));
        return taken && Number.parseInt(taken.message.body, 10);
      },
      flush: () => runAt(0, (turn) => queue.flush(turn)),
    });
  });
}

function message(number: number, chars: number, now: number): Message {
  const body = `${number}.`.padEnd(chars, '.');
  return { routingKey: 'acme.event.telemetry', properties: {}, body, encoding: 'utf8', createdAtMs: now };
}

describe('the limits of the telemetry queue', () => {
  it('64 MiB: whole chunks are dropped from the head, and their events counted [C-6.4]', async () => {
    const { first, ready, counts, rows } = await onQueue(({ queue, rows: stored, push, next, flush }) => {
      for (let number = 1; number <= 230; number++) push(number, WHOLE_CHUNK, 1_000);
      flush();
      const rows = stored.chunks().length;
      return { first: next(1_000), ready: queue.readyCount, counts: stored.counts('event.telemetry'), rows };
    });
    expect(first).toBe(8);
    expect(ready).toBe(222);
    expect(rows).toBe(223);
    expect(counts?.dropped_count).toBe(7);
  });

  it('100 000 events: whole chunks are dropped from the head, and their events counted [C-6.4]', async () => {
    const { first, ready, dropped } = await onQueue(({ queue, rows, push, next }) => {
      const before = queue.readyCount;
      for (let number = 1; number <= 100_001; number++) push(number, 20, 1_000);
      const ready = queue.readyCount - before;
      const dropped = rows.counts('event.telemetry')?.dropped_count ?? 0;
      return { first: next(1_000), ready, dropped };
    });
    expect(ready).toBeLessThanOrEqual(100_000);
    expect(dropped).toBe(100_001 - ready);
    expect(first).toBe(dropped + 1);
  });

  it('24 hours: older chunks are dropped when an event arrives or is taken [C-6.4]', async () => {
    const { first, dropped } = await onQueue(({ rows, push, next }) => {
      push(1, WHOLE_CHUNK, 0);
      push(2, WHOLE_CHUNK, HOUR_MS);
      push(3, WHOLE_CHUNK, 2 * HOUR_MS);
      const first = next(25 * HOUR_MS - 1);
      const dropped = rows.counts('event.telemetry')?.dropped_count;
      return { first, dropped };
    });
    expect(first).toBe(2);
    expect(dropped).toBe(1);
  });

  it('24 hours: an older event is not delivered, even when it is the only one [C-6.4]', async () => {
    const taken = await onQueue(({ push, next }) => {
      push(1, 500, 0);
      return next(25 * HOUR_MS);
    });
    expect(taken).toBeUndefined();
  });

  it('24 hours: a recent event stays, however old its chunk is [C-6.4]', async () => {
    const fresh = await onQueue(({ push, next, flush }) => {
      // One event in ten minutes, for two days, without a consumer.
      const count = 2 * 24 * 6;
      const fresh: (number | undefined)[] = [];
      for (let number = 1; number <= count; number++) {
        const now = number * 10 * MINUTE_MS;
        push(number, 1_200, now);
        flush();
      }
      for (;;) {
        const number = next(count * 10 * MINUTE_MS);
        if (number === undefined) return fresh;
        fresh.push(number);
      }
    });
    expect(fresh.slice(-100)).toEqual(Array.from({ length: 100 }, (_, index) => 189 + index));
  });

  it('64 MiB: the limit holds while a client keeps one of the oldest events leased [C-6.4]', async () => {
    const bytes = await onQueue(({ queue, rows, runAt, push, flush }) => {
      push(1, 500, 1_000);
      runAt(1_000, (turn) => queue.take(turn, owner, 1));
      for (let number = 2; number <= 300; number++) push(number, WHOLE_CHUNK, 1_000);
      flush();
      return rows.chunks().reduce((sum, chunk) => sum + chunk.byte_count, 0);
    });
    expect(bytes).toBeLessThanOrEqual(65 * MIB);
  });
});
