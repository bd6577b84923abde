/** Rows of queues, of their messages, and of chunks of events. */
import type { BodyEncoding, MessageProperties } from '../../../protocol/link/vhost.ts';
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

/** The holder of a lease. `tag`: null for basic.get. */
export interface Owner {
  connectionId: string;
  channel: number;
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
  /** Dropped for a limit or for age; `aged_count` has those for age. */
  dropped_count: number;
  aged_count: number;
  undelivered_count: number;
  rejected_count: number;
};

export type QueueRow = { name: string; message_count: number; byte_count: number } & DropColumns;

export type MessageRow = {
  queue: string;
  position: number;
  routing_key: string;
  properties: string;
  body: string;
  encoding: BodyEncoding;
  bytes: number;
  created_at_ms: number;
  /** Number of deliveries; `requeues`: how often a client requeued the message. */
  deliveries: number;
  requeues: number;
  lease: number | null;
  connection_id: string | null;
  channel: number | null;
  tag: string | null;
};

/** The columns of delivered messages that are read when the object is loaded. */
export type DeliveredMessageRow = Pick<
  MessageRow,
  'position' | 'bytes' | 'deliveries' | 'lease' | 'connection_id' | 'channel' | 'tag'
>;

export type AgedMessage = Pick<MessageRow, 'position' | 'bytes'>;

export type ChunkHead = {
  position: number;
  created_at_ms: number;
  event_count: number;
  byte_count: number;
};

export type ChunkRow = ChunkHead & { queue: string; state: string | null };

/**
 * Consecutive events with the same state. `lease`: the first lease, 0 = waiting, -1 = settled; `owner`: index
 * in `owners`.
 */
export type ChunkRun = [count: number, lease: number, owner: number, delivered: 0 | 1, requeues: number];

/** The states of a chunk's events, as stored. */
export interface ChunkState {
  owners: Owner[];
  runs: ChunkRun[];
}

/** Page size for reading messages without their bodies. */
const ROWS_AT_ONCE = 256;

export class QueueRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  counts(name: string): QueueRow | undefined {
    return this.#sql.one<QueueRow>('SELECT * FROM queue WHERE name = ?', name);
  }

  setCounts(turn: Turn, row: QueueRow): void {
    turn.write(
      `INSERT OR REPLACE INTO queue (name, message_count, byte_count, dropped_count, aged_count, undelivered_count,
         rejected_count) VALUES (?, ?, ?, ?, ?, ?, ?)`,
      row.name,
      row.message_count,
      row.byte_count,
      row.dropped_count,
      row.aged_count,
      row.undelivered_count,
      row.rejected_count,
    );
  }

  // messages

  lastPosition(queue: string): number {
    const row = this.#sql.one<{ last: number | null }>(
      'SELECT max(position) AS last FROM message WHERE queue = ?',
      queue,
    );
    return row?.last ?? 0;
  }

  /** Yields messages from the head that were delivered at least once; stops at the first that was not. */
  *delivered(queue: string): Generator<DeliveredMessageRow> {
    const rows = this.#sql.each<DeliveredMessageRow>(
      `SELECT position, bytes, deliveries, lease, connection_id, channel, tag
       FROM message WHERE queue = ? AND position > ? ORDER BY position LIMIT ?`,
      { key: 'position', from: -1, rows: ROWS_AT_ONCE },
      queue,
    );
    for (const row of rows) {
      if (row.deliveries === 0) return;
      yield row;
    }
  }

  message(queue: string, position: number): MessageRow | undefined {
    return this.#sql.one<MessageRow>(
      'SELECT * FROM message WHERE queue = ? AND position = ?',
      queue,
      position,
    );
  }

  messagesAfter(queue: string, position: number, limit: number): MessageRow[] {
    return this.#sql.all<MessageRow>(
      'SELECT * FROM message WHERE queue = ? AND position > ? ORDER BY position LIMIT ?',
      queue,
      position,
      limit,
    );
  }

  insertMessage(turn: Turn, row: MessageRow): void {
    turn.write(
      `INSERT INTO message (queue, position, routing_key, properties, body, encoding, bytes, created_at_ms, deliveries,
         requeues, lease, connection_id, channel, tag) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      row.queue,
      row.position,
      row.routing_key,
      row.properties,
      boundedRow(row.body),
      row.encoding,
      row.bytes,
      row.created_at_ms,
      row.deliveries,
      row.requeues,
      row.lease,
      row.connection_id,
      row.channel,
      row.tag,
    );
  }

  leaseMessage(turn: Turn, queue: string, position: number, lease: number, owner: Owner): void {
    turn.write(
      `UPDATE message SET deliveries = deliveries + 1, lease = ?, connection_id = ?, channel = ?, tag = ?
       WHERE queue = ? AND position = ?`,
      lease,
      owner.connectionId,
      owner.channel,
      owner.tag,
      queue,
      position,
    );
  }

  /** Puts a message back. `requeues`: 1 if the client requeued it, else 0. */
  releaseMessage(turn: Turn, queue: string, position: number, requeues: 0 | 1): void {
    turn.write(
      `UPDATE message SET lease = NULL, connection_id = NULL, requeues = requeues + ?
       WHERE queue = ? AND position = ?`,
      requeues,
      queue,
      position,
    );
  }

  /** Time of the first message; undefined if the queue is empty. */
  oldestMs(queue: string): number | undefined {
    return this.#sql.one<{ at: number }>(
      'SELECT created_at_ms AS at FROM message WHERE queue = ? ORDER BY position LIMIT 1',
      queue,
    )?.at;
  }

  /** The first messages that are older than `beforeMs` and not leased. */
  aged(queue: string, beforeMs: number, isHeld: (lease: number) => boolean, limit: number): AgedMessage[] {
    const aged: AgedMessage[] = [];
    const rows = this.#sql.each<AgedMessage & { lease: number | null; at: number }>(
      `SELECT position, bytes, lease, created_at_ms AS at FROM message
       WHERE queue = ? AND position > ? ORDER BY position LIMIT ?`,
      { key: 'position', from: -1, rows: ROWS_AT_ONCE },
      queue,
    );
    for (const { at, lease, position, bytes } of rows) {
      if (at > beforeMs || aged.length === limit) break;
      if (lease === null || !isHeld(lease)) aged.push({ position, bytes });
    }
    return aged;
  }

  deleteMessage(turn: Turn, queue: string, position: number): void {
    turn.write('DELETE FROM message WHERE queue = ? AND position = ?', queue, position);
  }

  /** Deletes all messages of a queue except those at these positions. */
  deleteAllBut(turn: Turn, queue: string, positions: readonly number[]): void {
    turn.write(
      'DELETE FROM message WHERE queue = ? AND position NOT IN (SELECT value FROM json_each(?))',
      queue,
      JSON.stringify(positions),
    );
  }

  // chunks: positions are unique across all queues

  /** All chunks in order, without their lines. */
  chunks(): ChunkRow[] {
    return this.#sql.all<ChunkRow>(
      'SELECT position, queue, created_at_ms, event_count, byte_count, state FROM chunk ORDER BY position',
    );
  }

  chunkData(position: number): string | undefined {
    return this.#sql.one<{ data: string }>('SELECT data FROM chunk WHERE position = ?', position)?.data;
  }

  insertChunk(turn: Turn, queue: string, head: ChunkHead, state: ChunkState, lines: string): void {
    turn.write(
      `INSERT INTO chunk (position, queue, created_at_ms, event_count, byte_count, state, data)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      head.position,
      queue,
      head.created_at_ms,
      head.event_count,
      head.byte_count,
      boundedRow(JSON.stringify(state)),
      boundedRow(lines),
    );
  }

  /** Appends lines (possibly none) and replaces the states of the events. */
  updateChunk(turn: Turn, head: ChunkHead, state: ChunkState, lines: string): void {
    turn.write(
      `UPDATE chunk SET data = data || ?, event_count = ?, byte_count = ?, state = ?
       WHERE position = ?`,
      boundedRow(lines),
      head.event_count,
      head.byte_count,
      boundedRow(JSON.stringify(state)),
      head.position,
    );
  }

  deleteChunk(turn: Turn, position: number): void {
    turn.write('DELETE FROM chunk WHERE position = ?', position);
  }

  /** Deletes a queue of chunks with its counts. */
  deleteQueue(turn: Turn, queue: string): void {
    turn.write('DELETE FROM chunk WHERE queue = ?', queue);
    turn.write('DELETE FROM queue WHERE name = ?', queue);
  }

  deleteAll(turn: Turn): void {
    turn.write('DELETE FROM message');
    turn.write('DELETE FROM chunk');
    turn.write('DELETE FROM queue');
  }
}
