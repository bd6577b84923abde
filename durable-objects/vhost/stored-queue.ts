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

/** A row in memory. One that came in this transaction is written once, at its end, as it then is. */
interface Entry {
  row: MessageRow;
  isStored: boolean;
  isGone: boolean;
}

export class StoredQueue implements Queue {
  readonly name: QueueName;
  readonly #storage: VhostStorage;
  readonly #deadLetter: DeadLetter;
  readonly #limits: QueueLimits;
  readonly #leased = new Map<number, { position: number; bytes: number; owner: Owner }>();
  /** Acknowledged and not deleted yet. */
  #acked: number[] = [];
  /** Positions put back, ascending; all below those that were never delivered. */
  #returned: number[] = [];
  /** The next that were never delivered, in order, and the last position that has been in here. */
  #ahead: Entry[] = [];
  #aheadTo = 0;
  #unsaved: Entry[] = [];
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
      this.#aheadTo = row.position;
      const { position, bytes, lease, connection_id: connectionId, channel, tag } = row;
      if (lease !== null && connectionId !== null && channel !== null && isConnected(connectionId)) {
        this.#leased.set(lease, { position, bytes, owner: { connectionId, channel, tag } });
      } else {
        this.#returned.push(position);
      }
    }
  }

  get readyCount(): number {
    return this.#messages - this.#leased.size;
  }

  get isDirty(): boolean {
    return this.#countsChanged;
  }

  push(message: Message, _now: number): void {
    const isNext = this.#aheadTo === this.#lastPosition && this.#ahead.length < READ_AHEAD;
    this.#lastPosition += 1;
    const row = toRow(this.name, this.#lastPosition, message);
    if (isNext) {
      const entry: Entry = { row, isStored: false, isGone: false };
      this.#ahead.push(entry);
      this.#unsaved.push(entry);
      this.#aheadTo = this.#lastPosition;
    } else {
      this.#storage.insertMessage(row);
    }
    this.#count(1, deliveryBytes(message));
    while (this.#messages > this.#limits.maxMessages || this.#bytes > this.#limits.maxBytes) {
      if (!this.#dropOldest()) break;
    }
  }

  take(owner: Owner, lease: number | null, now: number): Taken | undefined {
    for (;;) {
      const entry = this.#next();
      if (!entry) return undefined;
      const { row } = entry;
      const message = toMessage(row);
      if (now - row.created_at_ms >= this.#limits.maxAgeMs) {
        this.#remove(entry, message);
        this.#dropped += 1;
        continue;
      }
      if (row.deliveries >= MAX_DELIVERIES) {
        this.#remove(entry, message);
        this.#deadLetter(message, 'delivery_limit');
        continue;
      }
      const redelivered = row.deliveries > 0;
      if (lease === null) this.#remove(entry, message);
      else this.#lease(entry, owner, lease, deliveryBytes(message));
      return { message, redelivered };
    }
  }

  settle(lease: number, outcome: SettleOutcome): void {
    const held = this.#leased.get(lease);
    if (!held) return;
    this.#leased.delete(lease);
    if (outcome === 'ack') {
      this.#acked.push(held.position);
      this.#count(-1, -held.bytes);
      return;
    }
    this.#saveNew();
    if (outcome === 'requeue') {
      this.#giveBack(held.position);
      return;
    }
    const row = this.#storage.message(this.name, held.position);
    if (!row) return;
    const message = toMessage(row);
    this.#remove({ row, isStored: true, isGone: false }, message);
    this.#deadLetter(message, 'rejected');
  }

  release(holds: (owner: Owner) => boolean): void {
    this.#saveNew();
    for (const [lease, { position, owner }] of this.#leased) {
      if (!holds(owner)) continue;
      this.#leased.delete(lease);
      this.#giveBack(position);
    }
  }

  *leases(): Iterable<Lease> {
    for (const [id, { owner }] of this.#leased) yield { id, owner };
  }

  save(): void {
    this.#saveNew();
    if (!this.#countsChanged) return;
    this.#countsChanged = false;
    for (const position of this.#acked) this.#storage.deleteMessage(this.name, position);
    this.#acked = [];
    this.#storage.setQueueCounts(this.name, this.#messages, this.#bytes, this.#dropped);
  }

  /** Rows that came in this transaction: from here on they are found in storage. */
  #saveNew(): void {
    for (const entry of this.#unsaved) {
      if (!entry.isGone) this.#storage.insertMessage(entry.row);
      entry.isStored = true;
    }
    this.#unsaved = [];
  }

  /** The first message that waits: what was put back comes before what never went out. */
  #next(): Entry | undefined {
    while (this.#returned.length > 0) {
      const row = this.#storage.message(this.name, this.#returned.shift() ?? 0);
      if (row) return { row, isStored: true, isGone: false };
    }
    if (this.#ahead.length === 0) this.#readAhead();
    return this.#ahead.shift();
  }

  #readAhead(): void {
    if (this.#aheadTo >= this.#lastPosition) return;
    const rows = this.#storage.messagesAfter(this.name, this.#aheadTo, READ_AHEAD);
    this.#ahead = rows.map((row) => ({ row, isStored: true, isGone: false }));
    this.#aheadTo = rows.at(-1)?.position ?? this.#lastPosition;
  }

  #lease(entry: Entry, owner: Owner, lease: number, bytes: number): void {
    const { row } = entry;
    this.#leased.set(lease, { position: row.position, bytes, owner });
    if (entry.isStored) {
      this.#storage.leaseMessage(this.name, row.position, lease, owner);
      return;
    }
    row.deliveries += 1;
    row.lease = lease;
    row.connection_id = owner.connectionId;
    row.channel = owner.channel;
    row.tag = owner.tag;
  }

  #giveBack(position: number): void {
    this.#storage.releaseMessage(this.name, position);
    let index = this.#returned.length;
    while (index > 0 && (this.#returned[index - 1] ?? 0) > position) index--;
    this.#returned.splice(index, 0, position);
  }

  #dropOldest(): boolean {
    const entry = this.#next();
    if (!entry) return false;
    this.#remove(entry, toMessage(entry.row));
    this.#dropped += 1;
    return true;
  }

  #remove(entry: Entry, message: Message): void {
    entry.isGone = true;
    if (entry.isStored) this.#storage.deleteMessage(this.name, entry.row.position);
    this.#count(-1, -deliveryBytes(message));
  }

  #count(messages: number, bytes: number): void {
    this.#messages += messages;
    this.#bytes += bytes;
    this.#countsChanged = true;
  }
}

function toRow(queue: QueueName, position: number, message: Message): MessageRow {
  return {
    queue,
    position,
    routing_key: message.routingKey,
    properties: JSON.stringify(message.properties),
    body: message.body,
    encoding: message.encoding,
    bytes: deliveryBytes(message),
    created_at_ms: message.createdAtMs,
    deliveries: 0,
    lease: null,
    connection_id: null,
    channel: null,
    tag: null,
  };
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
