/** The limits of the telemetry queue in size and age: beyond them the oldest events are dropped [C-6.4]. */
import { describe, expect, it } from 'vitest';
import { onQueue as onAnyQueue, type QueueBench } from '#workerd/queues.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const MIB = 1024 * 1024;
/** An event that fills a chunk: 223 of them fit into 64 MiB. */
const WHOLE_CHUNK = 300_000;

async function onQueue<Value>(work: (bench: QueueBench) => Value): Promise<Value> {
  return await onAnyQueue('event.telemetry', work);
}

describe('the limits of the telemetry queue', () => {
  it('64 MiB: the oldest events are dropped, and counted [C-6.4]', async () => {
    const { first, ready, dropped, rows } = await onQueue((bench) => {
      for (let number = 1; number <= 230; number++) bench.push(number, WHOLE_CHUNK);
      bench.flush();
      const rows = bench.rows.chunks().length;
      return { first: bench.next(), ready: bench.queue.readyCount, dropped: bench.dropped(), rows };
    });
    expect(first).toBe(8);
    expect(ready).toBe(222);
    expect(rows).toBe(223);
    expect(dropped).toBe(7);
  });

  it('100 000 events: the oldest are dropped, and counted [C-6.4]', async () => {
    const { first, ready, dropped } = await onQueue((bench) => {
      for (let number = 1; number <= 100_003; number++) bench.push(number, 20);
      return { ready: bench.queue.readyCount, dropped: bench.dropped(), first: bench.next() };
    });
    expect({ first, ready, dropped }).toEqual({ first: 4, ready: 100_000, dropped: 3 });
  });

  it('24 hours: an older event is dropped and counted when the next event is delivered [C-6.4]', async () => {
    const { first, dropped } = await onQueue(({ dropped, push, next }) => {
      push(1, WHOLE_CHUNK, 0);
      push(2, WHOLE_CHUNK, HOUR_MS);
      push(3, WHOLE_CHUNK, 2 * HOUR_MS);
      const first = next(25 * HOUR_MS - 1);
      return { first, dropped: dropped() };
    });
    expect(first).toBe(2);
    expect(dropped).toBe(1);
  });

  it('24 hours: an older event is dropped and counted when another event arrives [C-6.4]', async () => {
    const [before, after, ready] = await onQueue(({ queue, dropped, push }) => {
      push(1, WHOLE_CHUNK, 0);
      push(2, WHOLE_CHUNK, 24 * HOUR_MS - 1);
      const before = dropped();
      push(3, WHOLE_CHUNK, 24 * HOUR_MS + MINUTE_MS);
      return [before, dropped(), queue.readyCount];
    });
    expect({ before, after, ready }).toEqual({ before: 0, after: 1, ready: 2 });
  });

  it('24 hours: an older event is not delivered, even when it is the only one [C-6.4]', async () => {
    const taken = await onQueue(({ push, next }) => {
      push(1, 500, 0);
      return next(25 * HOUR_MS);
    });
    expect(taken).toBeUndefined();
  });

  it('24 hours: an event of the last day is delivered, however old its chunk is [C-6.4]', async () => {
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
    const bytes = await onQueue(({ rows, next, push, flush }) => {
      push(1, 500, 1_000);
      next(1_000, 1);
      for (let number = 2; number <= 300; number++) push(number, WHOLE_CHUNK);
      flush();
      return rows.chunks().reduce((sum, chunk) => sum + chunk.byte_count, 0);
    });
    expect(bytes).toBeLessThanOrEqual(65 * MIB);
  });
});
