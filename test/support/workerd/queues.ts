/** A queue without its vhost, in the storage of a test object; each step is a turn, as in a vhost. */
import { runInDurableObject } from 'cloudflare:test';
import { Sql } from '../../../durable-objects/object/sql.ts';
import { limitsOf } from '../../../durable-objects/vhost/queue/limits.ts';
import { Queue } from '../../../durable-objects/vhost/queue/queue.ts';
import { type ChunkState, type Message, QueueRows } from '../../../durable-objects/vhost/queue/rows.ts';
import type { QueueName } from '../../../protocol/routing-keys.ts';
import { type RunAt, turnsOf } from './turns.ts';
import { vhostOf } from './world.ts';

const OWNER = { readerId: 'connection-1', channel: 1, tag: null };

export interface QueueBench {
  queue: Queue;
  rows: QueueRows;
  /** Adds telemetry whose body begins with its number and has `chars` characters. */
  push(number: number, chars: number, now?: number): void;
  /** Takes the next message, settles it if `lease` is null, and returns its number. */
  next(now?: number, lease?: number | null): number | undefined;
  requeue(lease: number): void;
  flush(): void;
  /** The number of messages that were dropped for the queue's limits or age. */
  dropped(): number;
}

export async function onQueue<Value>(name: QueueName, work: (bench: QueueBench) => Value): Promise<Value> {
  return await runInDurableObject(vhostOf(crypto.randomUUID()), (_vhost, state) => {
    const rows = new QueueRows(new Sql(state.storage));
    let position = 0;
    const queue = new Queue({
      ...{ key: name, rows, chunks: [], limits: limitsOf(name), deadLetter: () => {} },
      isConnected: () => true,
      nextPosition: () => {
        position += 1;
        return position;
      },
    });
    const runAt: RunAt = turnsOf(state, (turn) => queue.save(turn));
    return work({
      queue,
      rows,
      push: (number, chars, now = 1_000) =>
        runAt(now, (turn) => queue.push(turn, message(number, chars, now), 'passing')),
      next: (now = 1_000, lease = null) => {
        const taken = runAt(now, (turn) => queue.take(turn, OWNER, lease));
        return taken && Number.parseInt(taken.message.body, 10);
      },
      requeue: (lease) => runAt(1_000, () => queue.requeue(lease)),
      flush: () => runAt(1_000, (turn) => queue.flush(turn)),
      dropped: () => rows.drops(name)?.dropped_count ?? 0,
    });
  });
}

function message(number: number, chars: number, now: number): Message {
  const body = `${number}.`.padEnd(chars, '.');
  return { routingKey: 'acme.event.telemetry', properties: {}, body, encoding: 'utf8', createdAtMs: now };
}

/** The number of stored messages that are not settled, according to the states of their chunks. */
export function openIn(states: readonly string[]): number {
  const runs = states.flatMap((state) => (JSON.parse(state) as ChunkState).runs);
  return runs.reduce((sum, [count, lease]) => sum + (lease >= 0 ? count : 0), 0);
}
