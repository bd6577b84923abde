/** Conversion between messages and their rows. */
import { messageBytes } from '../../../protocol/link/vhost.ts';
import type { QueueKey } from './queue.ts';
import type { Message, MessageRow, Owner } from './rows.ts';

export function toRow(queue: QueueKey, position: number, message: Message): MessageRow {
  return {
    queue,
    position,
    routing_key: message.routingKey,
    properties: JSON.stringify(message.properties),
    body: message.body,
    encoding: message.encoding,
    bytes: messageBytes(message),
    created_at_ms: message.createdAtMs,
    deliveries: 0,
    requeues: 0,
    lease: null,
    connection_id: null,
    channel: null,
    tag: null,
  };
}

export function toMessage(row: MessageRow): Message {
  return {
    routingKey: row.routing_key,
    properties: JSON.parse(row.properties),
    body: row.body,
    encoding: row.encoding,
    createdAtMs: row.created_at_ms,
  };
}

/** Records a lease and one more delivery in a row that is only in memory. */
export function leaseRow(row: MessageRow, lease: number, { connectionId, channel, tag }: Owner): void {
  row.deliveries += 1;
  row.lease = lease;
  row.connection_id = connectionId;
  row.channel = channel;
  row.tag = tag;
}
