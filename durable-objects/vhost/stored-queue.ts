/**
 * A queue whose every message is a row: acknowledgements, executions, alarms, dead letters. A lease is written with
 * the message, so it outlives hibernation; the leases of connections that are gone count as put back.
 */
import { deliveryBytes } from '../../protocol/link.ts';
import type { QueueName } from '../../protocol/routing-keys.ts';
import {
  type DeadLetter,
  type Lease,
  limitsOf,
  MAX_DELIVERIES,
  type Queue,
  type QueueLimits,
  type SettleOutcome,
  type Taken,
} from './queue.ts';
import type { Message, MessageRow, Owner } from './schema.ts';
import type { VhostStorage } from './storage.ts';

/** Rows read ahead at once for delivery. */
const READ_AHEAD = 16;

export class StoredQueue implements Queue {
  readonly name: QueueName;
  readonly #storage: VhostStorage;
  readonly #deadLetter: DeadLetter;
  readonly #limits: QueueLimits;
  readonly #leased = new Map<number, { position: number; owner: Owner }>();
  /** Positions put back, ascending; all below the cursor. */
  #returned: number[] = [];
  /** Everything above it was never delivered. */
  #cursor = 0;
  #ahead: MessageRow[] = [];
  #lastPosition: number;
  #messages: number;
  #bytes: number;
  #dropped: number;
  #countsChanged = false;

  constructor(
    name: QueueName,
    storage: VhostStorage,
    deadLetter: DeadLetter,
    isConnected: (connectionId: string) => boolean,
  ) {
    this.name = name;
    this.#storage = storage;
    this.#deadLetter = deadLetter;
    this.#limits = limitsOf(name);
    const counts = storage.queue(name);
    this.#messages = counts?.message_count ?? 0;
    this.#bytes = counts?.byte_count ?? 0;
    this.#dropped = counts?.dropped_count ?? 0;
    this.#lastPosition = storage.lastPosition(name);
    for (const row of storage.deliveredMessages(name)) {
      this.#cursor = row.position;
      const { lease, connection_id: connectionId, channel, tag } = row;
      if (lease !== null && connectionId !== null && channel !== null && isConnected(connectionId)) {
        this.#leased.set(lease, { position: row.position, owner: { connectionId, channel, tag } });
      } else {
        this.#returned.push(row.position);
      }
    }
  }

  get readyCount(): number {
    return this.#messages - this.#leased.size;
  }

  push(message: Message, now: number): void {
    this.#lastPosition += 1;
    this.#storage.insertMessage(this.name, this.#lastPosition, message);
    this.#count(1, deliveryBytes(message));
    while (this.#messages > this.#limits.maxMessages || this.#bytes > this.#limits.maxBytes) {
      if (!this.#dropOldest()) break;
    }
    this.#expire(now);
  }

  take(owner: Owner, lease: number | null, now: number): Taken | undefined {
    this.#expire(now);
    for (;;) {
      const row = this.#next();
      if (!row) return undefined;
      const message = toMessage(row);
      if (row.deliveries >= MAX_DELIVERIES) {
        this.#remove(row.position, message);
        this.#deadLetter(message, 'delivery_limit');
        continue;
      }
      if (lease === null) {
        this.#remove(row.position, message);
      } else {
        this.#storage.leaseMessage(this.name, row.position, lease, owner);
        this.#leased.set(lease, { position: row.position, owner });
      }
      return { message, redelivered: row.deliveries > 0 };
    }
  }

  settle(lease: number, outcome: SettleOutcome): void {
    const held = this.#leased.get(lease);
    if (!held) return;
    this.#leased.delete(lease);
    if (outcome === 'requeue') {
      this.#storage.releaseMessage(this.name, held.position);
      this.#giveBack(held.position);
      return;
    }
    const row = this.#storage.message(this.name, held.position);
    if (!row) return;
    const message = toMessage(row);
    this.#remove(held.position, message);
    if (outcome === 'discard') this.#deadLetter(message, 'rejected');
  }

  release(holds: (owner: Owner) => boolean): void {
    for (const [lease, { position, owner }] of this.#leased) {
      if (!holds(owner)) continue;
      this.#leased.delete(lease);
      this.#storage.releaseMessage(this.name, position);
      this.#giveBack(position);
    }
  }

  *leases(): Iterable<Lease> {
    for (const [id, { owner }] of this.#leased) yield { id, owner };
  }

  saveCounts(): void {
    if (!this.#countsChanged) return;
    this.#countsChanged = false;
    this.#storage.setQueueCounts(this.name, this.#messages, this.#bytes, this.#dropped);
  }

  /** The first message that waits: what was put back comes before what never went out. */
  #next(): MessageRow | undefined {
    while (this.#returned.length > 0) {
      const position = this.#returned.shift() ?? 0;
      const row = this.#storage.message(this.name, position);
      if (row) return row;
    }
    const row = this.#peekFresh();
    if (row) {
      this.#ahead.shift();
      this.#cursor = row.position;
    }
    return row;
  }

  #peekFresh(): MessageRow | undefined {
    if (this.#ahead.length === 0) {
      if (this.#cursor >= this.#lastPosition) return undefined;
      this.#ahead = this.#storage.messagesAfter(this.name, this.#cursor, READ_AHEAD);
    }
    return this.#ahead[0];
  }

  #giveBack(position: number): void {
    let index = this.#returned.length;
    while (index > 0 && (this.#returned[index - 1] ?? 0) > position) index--;
    this.#returned.splice(index, 0, position);
  }

  #dropOldest(): boolean {
    const row = this.#next();
    if (!row) return false;
    this.#remove(row.position, toMessage(row));
    this.#dropped += 1;
    return true;
  }

  #expire(now: number): void {
    for (;;) {
      const position = this.#returned[0];
      const row = position === undefined ? this.#peekFresh() : this.#storage.message(this.name, position);
      if (!row || now - row.created_at_ms < this.#limits.maxAgeMs) return;
      this.#dropOldest();
    }
  }

  #remove(position: number, message: Message): void {
    this.#storage.deleteMessage(this.name, position);
    this.#count(-1, -deliveryBytes(message));
  }

  #count(messages: number, bytes: number): void {
    this.#messages += messages;
    this.#bytes += bytes;
    this.#countsChanged = true;
  }
}

function toMessage(row: MessageRow): Message {
  return {
    routingKey: row.routing_key,
    properties: JSON.parse(row.properties),
    body: row.body,
    encoding: row.encoding,
    createdAtMs: row.created_at_ms,
  };
}
