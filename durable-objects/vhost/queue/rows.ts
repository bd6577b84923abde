/** Queues, their messages a row each, and the chunks of telemetry events. */
import type { BodyEncoding, MessageProperties } from '../../../protocol/link/vhost.ts';
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

/** Who holds a delivery. tag null: basic.get. */
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

export type QueueRow = { name: string; message_count: number; byte_count: number; dropped_count: number };

export type MessageRow = {
  queue: string;
  position: number;
  routing_key: string;
  properties: string;
  body: string;
  encoding: BodyEncoding;
  bytes: number;
  created_at_ms: number;
  deliveries: number;
  lease: number | null;
  connection_id: string | null;
  channel: number | null;
  tag: string | null;
};

/** What of a message that was out counts at a wake. */
export type DeliveredMessageRow = Pick<
  MessageRow,
  'position' | 'bytes' | 'deliveries' | 'lease' | 'connection_id' | 'channel' | 'tag'
>;

export type ChunkHead = {
  position: number;
  message_count: number;
  byte_count: number;
  leased_count: number;
  created_at_ms: number;
};

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
      'INSERT OR REPLACE INTO queue (name, message_count, byte_count, dropped_count) VALUES (?, ?, ?, ?)',
      row.name,
      row.message_count,
      row.byte_count,
      row.dropped_count,
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

  /** The messages that were out at least once, from the head; stops at the first that never was. */
  *delivered(queue: string): Generator<DeliveredMessageRow> {
    const rows = this.#sql.each<DeliveredMessageRow>(
      `SELECT position, bytes, deliveries, lease, connection_id, channel, tag
       FROM message WHERE queue = ? ORDER BY position`,
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
      `INSERT INTO message (queue, position, routing_key, properties, body, encoding, bytes, created_at_ms, deliveries, lease,
         connection_id, channel, tag) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      row.queue,
      row.position,
      row.routing_key,
      row.properties,
      boundedRow(row.body),
      row.encoding,
      row.bytes,
      row.created_at_ms,
      row.deliveries,
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

  releaseMessage(turn: Turn, queue: string, position: number): void {
    turn.write(
      'UPDATE message SET lease = NULL, connection_id = NULL WHERE queue = ? AND position = ?',
      queue,
      position,
    );
  }

  deleteMessage(turn: Turn, queue: string, position: number): void {
    turn.write('DELETE FROM message WHERE queue = ? AND position = ?', queue, position);
  }

  // telemetry chunks

  chunks(): ChunkHead[] {
    return this.#sql.all<ChunkHead>(
      'SELECT position, message_count, byte_count, leased_count, created_at_ms FROM chunk ORDER BY position',
    );
  }

  chunkData(position: number): string | undefined {
    return this.#sql.one<{ data: string }>('SELECT data FROM chunk WHERE position = ?', position)?.data;
  }

  putChunk(turn: Turn, head: ChunkHead, data: string): void {
    turn.write(
      `INSERT OR REPLACE INTO chunk (position, message_count, byte_count, leased_count, created_at_ms, data)
       VALUES (?, ?, ?, ?, ?, ?)`,
      head.position,
      head.message_count,
      head.byte_count,
      head.leased_count,
      head.created_at_ms,
      boundedRow(data),
    );
  }

  deleteChunk(turn: Turn, position: number): void {
    turn.write('DELETE FROM chunk WHERE position = ?', position);
  }

  deleteAll(turn: Turn): void {
    turn.write('DELETE FROM message');
    turn.write('DELETE FROM chunk');
    turn.write('DELETE FROM queue');
  }
}
