/** Rows of queues: chunks of messages, and the numbers of dropped messages. */
import type { BodyEncoding, MessageProperties } from '../../../protocol/link/vhost.ts';
import type { QueueDrop } from '../../metrics/families.ts';
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

/** The holder of a lease. */
export interface Owner {
  /** The connection of an AMQP client, or the id of any other reader of queues. */
  readerId: string;
  /** The channel of an AMQP client, with a shared prefetch; a reader without channels has one, 0. */
  channel: number;
  /** Null for basic.get. */
  tag: string | null;
}

export interface Message {
  routingKey: string;
  properties: MessageProperties;
  body: string;
  encoding: BodyEncoding;
  createdAtMs: number;
}

export type DropColumns = {
  /** Messages dropped for a limit or for age; `aged_count` counts those for age alone. */
  dropped_count: number;
  aged_count: number;
  undelivered_count: number;
  rejected_count: number;
};

/**
 * What protects a message until it is stored: the site that keeps it, with its sequence there, or the permission
 * to lose it in a crash while a client holds it (telemetry, [C-6.4]).
 */
export type Safety = { siteId: string; sequence: number } | 'passing';

export type ChunkHead = {
  position: number;
  created_at_ms: number;
  event_count: number;
  byte_count: number;
};

export type ChunkRow = ChunkHead & { queue: string; state: string };

/**
 * Consecutive messages with the same state. `lease`: the first lease, 0 = waiting, -1 = settled; `owner`: index
 * in `owners`.
 */
export type ChunkRun = [count: number, lease: number, owner: number, delivered: 0 | 1, requeues: number];

/** The states of a chunk's messages, as stored. */
export interface ChunkState {
  owners: Owner[];
  runs: ChunkRun[];
}

export class QueueRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  drops(name: string): DropColumns | undefined {
    return this.#sql.one<DropColumns>('SELECT * FROM queue WHERE name = ?', name);
  }

  setDrops(turn: Turn, row: DropColumns & { name: string }): void {
    turn.replace('queue', row);
  }

  /** All chunks in order, without their lines; positions are unique across all queues. */
  chunks(): ChunkRow[] {
    return this.#sql.all<ChunkRow>(
      'SELECT position, queue, created_at_ms, event_count, byte_count, state FROM chunk ORDER BY position',
    );
  }

  chunkData(position: number): string | undefined {
    return this.#sql.one<{ data: string }>('SELECT data FROM chunk WHERE position = ?', position)?.data;
  }

  insertChunk(turn: Turn, queue: string, head: ChunkHead, state: ChunkState, lines: string): void {
    const text = boundedRow(JSON.stringify(state));
    turn.insert('chunk', { ...head, queue, state: text, data: boundedRow(lines) });
  }

  /** Appends lines (possibly none) and replaces the states of the messages. */
  updateChunk(turn: Turn, head: ChunkHead, state: ChunkState, lines: string): void {
    turn.write(
      `UPDATE chunk SET data = data || ?, created_at_ms = ?, event_count = ?, byte_count = ?, state = ?
       WHERE position = ?`,
      boundedRow(lines),
      head.created_at_ms,
      head.event_count,
      head.byte_count,
      boundedRow(JSON.stringify(state)),
      head.position,
    );
  }

  deleteChunk(turn: Turn, position: number): void {
    turn.write('DELETE FROM chunk WHERE position = ?', position);
  }

  /** Deletes the messages of a queue and its numbers. */
  deleteQueue(turn: Turn, queue: string): void {
    turn.write('DELETE FROM chunk WHERE queue = ?', queue);
    turn.write('DELETE FROM queue WHERE name = ?', queue);
  }
}

/** Messages that a queue dropped or dead-lettered, by reason, since the queue was created. */
export class Drops {
  readonly #counts: Record<QueueDrop, number>;
  /** Whether the queue's row is out of date. */
  isChanged = false;

  constructor(row: DropColumns | undefined) {
    const dropped = row?.dropped_count ?? 0;
    const age = row?.aged_count ?? 0;
    this.#counts = {
      limit: dropped - age,
      age,
      deliveries: row?.undelivered_count ?? 0,
      rejected: row?.rejected_count ?? 0,
    };
  }

  get counts(): Readonly<Record<QueueDrop, number>> {
    return this.#counts;
  }

  add(reason: QueueDrop, messages = 1): void {
    this.#counts[reason] += messages;
    this.isChanged = true;
  }

  /** Returns the columns for the row and marks them as written. */
  take(): DropColumns {
    this.isChanged = false;
    const { limit, age, deliveries, rejected } = this.#counts;
    return {
      dropped_count: limit + age,
      aged_count: age,
      undelivered_count: deliveries,
      rejected_count: rejected,
    };
  }
}
