/**
 * A queue with a row for every waiting message: acknowledgements, executions, alarms, dead letters. A message
 * that is delivered at once and that its site keeps is only in memory until `storeNew`; if it is acknowledged
 * before, it is never written. A lease is stored with its message, so it survives hibernation; messages that
 * were leased to lost connections count as put back.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { QueueName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { QueueCounts } from './counts.ts';
import type { Drops } from './drops.ts';
import { leaseRow, toMessage, toRow } from './message-row.ts';
import { type DeadLetter, type KeptBy, type Lease, limitsOf, type Queue, type Taken } from './queue.ts';
import type { Message, MessageRow, Owner, QueueRows } from './rows.ts';
import { type Entry, Unstored } from './unstored.ts';

export class StoredQueue implements Queue {
  readonly key: QueueName;
  readonly drops: Drops;
  readonly #rows: QueueRows;
  readonly #deadLetter: DeadLetter;
  readonly #limits: ReturnType<typeof limitsOf>;
  readonly #leased = new Map<number, { position: number; bytes: number; owner: Owner }>();
  /** Positions that are acknowledged but not deleted yet. */
  #acked: number[] = [];
  /** Positions that were put back, ascending; all are before the messages that were never delivered. */
  #returned: number[] = [];
  /** The next messages that were never delivered, in order; `#aheadTo`: the last position that was in this list. */
  #ahead: Entry[] = [];
  #aheadTo = 0;
  readonly #unstored = new Unstored();
  /** A message was stored in this turn, so all others must be too. */
  #isStoring = false;
  #lastPosition: number;
  readonly #counts: QueueCounts;
  #oldestMs: number | undefined;

  constructor(
    key: QueueName,
    rows: QueueRows,
    deadLetter: DeadLetter,
    isConnected: (connectionId: string) => boolean,
  ) {
    this.key = key;
    this.#rows = rows;
    this.#deadLetter = deadLetter;
    this.#limits = limitsOf(key);
    this.#counts = new QueueCounts(rows, key);
    this.drops = this.#counts.drops;
    this.#lastPosition = rows.lastPosition(key);
    this.#oldestMs = rows.oldestMs(key);
    for (const row of rows.delivered(key)) {
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
    return this.#counts.messages - this.#leased.size;
  }

  get isDirty(): boolean {
    return this.#counts.isChanged;
  }

  get maxAgeMs(): number {
    return this.#limits.maxAgeMs;
  }

  /** A lower bound; the exact time is read when it is due. */
  get oldestMs(): number | undefined {
    return this.#oldestMs;
  }

  get openSinceMs(): number | undefined {
    return this.#rows.oldestMs(this.key);
  }

  /** Whether all messages that are only in memory must be stored by the end of this turn. */
  get mustStore(): boolean {
    return this.#isStoring || this.#unstored.mustGo;
  }

  /** Sequence of a site's first message that is only in memory. */
  firstKept(siteId: string): number | undefined {
    return this.#unstored.firstKept(siteId);
  }

  push(turn: Turn, message: Message, keptBy?: KeptBy): void {
    const room = keptBy ? VHOST_BOUNDS.unstoredMessages : VHOST_BOUNDS.readAhead;
    const isNext = this.#aheadTo === this.#lastPosition && this.#ahead.length < room;
    this.#lastPosition += 1;
    const row = toRow(this.key, this.#lastPosition, message);
    if (isNext) {
      const entry: Entry = { row, isStored: false, keptBy };
      this.#ahead.push(entry);
      this.#unstored.add(entry);
      this.#aheadTo = this.#lastPosition;
    } else {
      this.#insert(turn, row);
    }
    this.#counts.add(1, row.bytes);
    this.#oldestMs ??= message.createdAtMs;
    while (this.#counts.messages > this.#limits.maxMessages || this.#counts.bytes > this.#limits.maxBytes) {
      if (!this.#dropOldest(turn)) break;
    }
  }

  take(turn: Turn, owner: Owner, lease: number | null): Taken | undefined {
    for (;;) {
      const entry = this.#next();
      if (!entry) return undefined;
      const { row } = entry;
      const message = toMessage(row);
      if (turn.now - row.created_at_ms >= this.#limits.maxAgeMs) {
        this.#remove(turn, entry);
        this.drops.add('age');
        continue;
      }
      if (row.requeues >= LIMIT.deliveriesPerMessage) {
        this.#remove(turn, entry);
        this.drops.add('deliveries');
        this.#deadLetter(turn, this.key, message, 'delivery_limit');
        continue;
      }
      const redelivered = row.deliveries > 0;
      if (lease === null) this.#remove(turn, entry);
      else this.#lease(turn, entry, owner, lease);
      return { message, redelivered };
    }
  }

  acknowledge(lease: number): void {
    const held = this.#letGo(lease);
    if (!held) return;
    this.#counts.add(-1, -held.bytes);
    if (this.#unstored.delete(held.position)) return;
    this.#acked.push(held.position);
    this.#counts.noteChange();
  }

  requeue(turn: Turn, lease: number): void {
    const held = this.#letGo(lease);
    if (!held) return;
    this.storeNew(turn);
    this.#giveBack(turn, held.position, 1);
  }

  discard(turn: Turn, lease: number): void {
    const held = this.#letGo(lease);
    if (!held) return;
    this.storeNew(turn);
    const row = this.#rows.message(this.key, held.position);
    if (!row) return;
    this.#remove(turn, { row, isStored: true });
    this.drops.add('rejected');
    this.#deadLetter(turn, this.key, toMessage(row), 'rejected');
  }

  release(turn: Turn, holds: (owner: Owner) => boolean): void {
    this.storeNew(turn);
    for (const [lease, { position, owner }] of this.#leased) {
      if (!holds(owner)) continue;
      this.#leased.delete(lease);
      this.#giveBack(turn, position, 0);
    }
  }

  /** Leased messages stay leased. */
  purge(turn: Turn): number {
    this.storeNew(turn);
    const count = this.readyCount;
    const held = [...this.#leased.values()];
    const bytes = held.reduce((sum, one) => sum + one.bytes, 0);
    this.#rows.deleteAllBut(
      turn,
      this.key,
      held.map(({ position }) => position),
    );
    this.#acked = [];
    this.#returned = [];
    this.#ahead = [];
    this.#aheadTo = this.#lastPosition;
    this.#counts.add(-count, bytes - this.#counts.bytes);
    this.#counts.noteChange();
    return count;
  }

  /** Leased messages stay leased. */
  dropAged(turn: Turn): void {
    this.storeNew(turn);
    this.#writeCounts(turn);
    const beforeMs = turn.now - this.#limits.maxAgeMs;
    const isHeld = (lease: number) => this.#leased.has(lease);
    const aged = this.#rows.aged(this.key, beforeMs, isHeld, VHOST_BOUNDS.agedPerAlarm);
    const gone = new Set(aged.map(({ position }) => position));
    this.#returned = this.#returned.filter((position) => !gone.has(position));
    this.#ahead = this.#ahead.filter(({ row }) => !gone.has(row.position));
    for (const { position, bytes } of aged) {
      this.#rows.deleteMessage(turn, this.key, position);
      this.drops.add('age');
      this.#counts.add(-1, -bytes);
    }
    const oldestMs = this.#rows.oldestMs(this.key);
    const isMore = aged.length === VHOST_BOUNDS.agedPerAlarm;
    // The oldest messages are leased: check again later.
    this.#oldestMs =
      oldestMs && !isMore ? Math.max(oldestMs, beforeMs + VHOST_BOUNDS.heldRecheckMs) : oldestMs;
  }

  *leases(): Iterable<Lease> {
    for (const [id, { owner }] of this.#leased) yield { id, owner };
  }

  save(turn: Turn): void {
    this.#isStoring = false;
    this.#writeCounts(turn);
  }

  #writeCounts(turn: Turn): void {
    if (!this.#counts.isChanged) return;
    for (const position of this.#acked) this.#rows.deleteMessage(turn, this.key, position);
    this.#acked = [];
    this.#counts.write(turn, this.#unstored);
  }

  /** Stores all messages that are only in memory. */
  storeNew(turn: Turn): void {
    for (const entry of this.#unstored.takeAll()) {
      entry.isStored = true;
      this.#insert(turn, entry.row);
    }
  }

  #insert(turn: Turn, row: MessageRow): void {
    this.#rows.insertMessage(turn, row);
    this.#isStoring = true;
    this.#counts.noteChange();
  }

  #letGo(lease: number): { position: number; bytes: number } | undefined {
    const held = this.#leased.get(lease);
    this.#leased.delete(lease);
    return held;
  }

  /** Removes and returns the first waiting message: messages that were put back come first. */
  #next(): Entry | undefined {
    while (this.#returned.length > 0) {
      const row = this.#rows.message(this.key, this.#returned.shift() ?? 0);
      if (row) return { row, isStored: true };
    }
    if (this.#ahead.length === 0) this.#readAhead();
    return this.#ahead.shift();
  }

  #readAhead(): void {
    if (this.#aheadTo >= this.#lastPosition) return;
    const rows = this.#rows.messagesAfter(this.key, this.#aheadTo, VHOST_BOUNDS.readAhead);
    this.#ahead = rows.map((row) => ({ row, isStored: true }));
    this.#aheadTo = rows.at(-1)?.position ?? this.#lastPosition;
  }

  #lease(turn: Turn, { row, isStored }: Entry, owner: Owner, lease: number): void {
    this.#leased.set(lease, { position: row.position, bytes: row.bytes, owner });
    if (isStored) this.#rows.leaseMessage(turn, this.key, row.position, lease, owner);
    else leaseRow(row, lease, owner);
  }

  #giveBack(turn: Turn, position: number, requeues: 0 | 1): void {
    this.#rows.releaseMessage(turn, this.key, position, requeues);
    let index = this.#returned.length;
    while (index > 0 && (this.#returned[index - 1] ?? 0) > position) index--;
    this.#returned.splice(index, 0, position);
  }

  #dropOldest(turn: Turn): boolean {
    const entry = this.#next();
    if (!entry) return false;
    this.#remove(turn, entry);
    this.drops.add('limit');
    return true;
  }

  #remove(turn: Turn, entry: Entry): void {
    this.#counts.add(-1, -entry.row.bytes);
    if (this.#unstored.delete(entry.row.position)) return;
    this.#rows.deleteMessage(turn, this.key, entry.row.position);
    this.#counts.noteChange();
  }
}
