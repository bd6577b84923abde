/** Every statement of a Vhost, by name; callers wrap what belongs together in one `transaction`. */
import { migrate } from '../migrate.ts';
import { boundedRow } from '../row-size.ts';
import {
  type ChunkHead,
  type ConnectionRow,
  type ConsumerRow,
  type DeliveredMessageRow,
  type MessageRow,
  type Owner,
  type QueueRow,
  VHOST_MIGRATIONS,
} from './schema.ts';

type Row = Record<string, SqlStorageValue>;

/** `revoked`: the key was revoked here, also before it was ever opened. */
export type VhostFact = 'key' | 'directory' | 'revoked';

export class VhostStorage {
  rowsWritten = 0;
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    migrate(storage, VHOST_MIGRATIONS);
  }

  transaction<Value>(work: () => Value): Value {
    return this.#storage.transactionSync(work);
  }

  #all<R extends Row>(sql: string, ...bindings: SqlStorageValue[]): R[] {
    return this.#storage.sql.exec<R>(sql, ...bindings).toArray();
  }

  #one<R extends Row>(sql: string, ...bindings: SqlStorageValue[]): R | undefined {
    return this.#all<R>(sql, ...bindings)[0];
  }

  #write(sql: string, ...bindings: SqlStorageValue[]): void {
    this.rowsWritten += this.#storage.sql.exec(sql, ...bindings).rowsWritten;
  }

  fact<Value>(name: VhostFact): Value | undefined {
    const row = this.#one<{ value: string }>('SELECT value FROM fact WHERE name = ?', name);
    return row && (JSON.parse(row.value) as Value);
  }

  setFact(name: VhostFact, value: unknown): void {
    this.#write(
      'INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)',
      name,
      boundedRow(JSON.stringify(value)),
    );
  }

  // connections

  connections(): ConnectionRow[] {
    return this.#all<ConnectionRow>('SELECT * FROM connection ORDER BY connected_at_ms');
  }

  insertConnection(row: ConnectionRow): void {
    this.#write(
      'INSERT INTO connection (id, bridge_id, bridge_boot, address, connected_at_ms) VALUES (?, ?, ?, ?, ?)',
      row.id,
      row.bridge_id,
      row.bridge_boot,
      row.address,
      row.connected_at_ms,
    );
  }

  /** With the consumers and limits that hang on it. */
  deleteConnection(id: string): void {
    this.#write('DELETE FROM connection WHERE id = ?', id);
    this.#write('DELETE FROM consumer WHERE connection_id = ?', id);
    this.#write('DELETE FROM channel_limit WHERE connection_id = ?', id);
  }

  hasSeenConnection(id: string): boolean {
    return this.#one('SELECT 1 FROM seen_connection WHERE id = ?', id) !== undefined;
  }

  rememberConnection(id: string, now: number, forgetBefore: number): void {
    this.#write('DELETE FROM seen_connection WHERE at_ms < ?', forgetBefore);
    this.#write('INSERT INTO seen_connection (id, at_ms) VALUES (?, ?)', id, now);
  }

  // consumers

  consumers(): ConsumerRow[] {
    return this.#all<ConsumerRow>('SELECT * FROM consumer');
  }

  insertConsumer(row: ConsumerRow): void {
    this.#write(
      `INSERT INTO consumer (connection_id, channel, tag, queue, no_ack, exclusive, prefetch) VALUES (?, ?, ?, ?, ?, ?, ?)`,
      row.connection_id,
      row.channel,
      row.tag,
      row.queue,
      row.no_ack,
      row.exclusive,
      row.prefetch,
    );
  }

  deleteConsumer(connectionId: string, channel: number, tag: string): void {
    this.#write(
      'DELETE FROM consumer WHERE connection_id = ? AND channel = ? AND tag = ?',
      connectionId,
      channel,
      tag,
    );
  }

  deleteChannel(connectionId: string, channel: number): void {
    this.#write('DELETE FROM consumer WHERE connection_id = ? AND channel = ?', connectionId, channel);
    this.#write('DELETE FROM channel_limit WHERE connection_id = ? AND channel = ?', connectionId, channel);
  }

  channelLimits(): { connection_id: string; channel: number; prefetch: number }[] {
    return this.#all('SELECT * FROM channel_limit');
  }

  setChannelLimit(connectionId: string, channel: number, prefetch: number): void {
    this.#write(
      'INSERT OR REPLACE INTO channel_limit (connection_id, channel, prefetch) VALUES (?, ?, ?)',
      connectionId,
      channel,
      prefetch,
    );
  }

  // queues and messages

  queue(name: string): QueueRow | undefined {
    return this.#one<QueueRow>('SELECT * FROM queue WHERE name = ?', name);
  }

  setQueueCounts(name: string, messages: number, bytes: number, dropped: number): void {
    this.#write(
      'INSERT OR REPLACE INTO queue (name, message_count, byte_count, dropped_count) VALUES (?, ?, ?, ?)',
      name,
      messages,
      bytes,
      dropped,
    );
  }

  lastPosition(queue: string): number {
    return (
      this.#one<{ last: number | null }>('SELECT max(position) AS last FROM message WHERE queue = ?', queue)
        ?.last ?? 0
    );
  }

  /** The messages that were out at least once, from the head; stops at the first that never was. */
  *deliveredMessages(queue: string): Generator<DeliveredMessageRow> {
    const rows = this.#storage.sql.exec<DeliveredMessageRow>(
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
    return this.#one<MessageRow>('SELECT * FROM message WHERE queue = ? AND position = ?', queue, position);
  }

  messagesAfter(queue: string, position: number, limit: number): MessageRow[] {
    return this.#all<MessageRow>(
      'SELECT * FROM message WHERE queue = ? AND position > ? ORDER BY position LIMIT ?',
      queue,
      position,
      limit,
    );
  }

  insertMessage(row: MessageRow): void {
    this.#write(
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

  leaseMessage(queue: string, position: number, lease: number, owner: Owner): void {
    this.#write(
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

  releaseMessage(queue: string, position: number): void {
    this.#write(
      'UPDATE message SET lease = NULL, connection_id = NULL WHERE queue = ? AND position = ?',
      queue,
      position,
    );
  }

  deleteMessage(queue: string, position: number): void {
    this.#write('DELETE FROM message WHERE queue = ? AND position = ?', queue, position);
  }

  // telemetry chunks

  chunks(): ChunkHead[] {
    return this.#all<ChunkHead>(
      'SELECT position, message_count, byte_count, leased_count, created_at_ms FROM chunk ORDER BY position',
    );
  }

  chunkData(position: number): string | undefined {
    return this.#one<{ data: string }>('SELECT data FROM chunk WHERE position = ?', position)?.data;
  }

  putChunk(head: ChunkHead, data: string): void {
    this.#write(
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

  deleteChunk(position: number): void {
    this.#write('DELETE FROM chunk WHERE position = ?', position);
  }

  // outboxes received

  received(): Map<string, number> {
    const rows = this.#all<{ site_id: string; sequence: number }>('SELECT site_id, sequence FROM received');
    return new Map(rows.map((row) => [row.site_id, row.sequence]));
  }

  setReceived(siteId: string, sequence: number): void {
    this.#write('INSERT OR REPLACE INTO received (site_id, sequence) VALUES (?, ?)', siteId, sequence);
  }

  /** Everything that a revoked key leaves. */
  deleteQueues(): void {
    for (const table of [
      'message',
      'chunk',
      'queue',
      'consumer',
      'channel_limit',
      'connection',
      'received',
    ]) {
      this.#write(`DELETE FROM ${table}`);
    }
  }
}
