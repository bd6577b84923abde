/**
 * Consecutive messages of a queue, stored in one row with a line for each message. Lines are only appended.
 * The states of the messages (waiting, leased or settled) are in a separate column; they are small and stay
 * in memory even when the lines are only in storage.
 */
import { messageBytes } from '../../../protocol/link/vhost.ts';
import type { ChunkHead, ChunkRun, ChunkState, Message, Owner, Safety } from './rows.ts';

const WAITING = 0;
const SETTLED = -1;

export class Chunk {
  readonly position: number;
  /** Time of the oldest message. */
  createdAtMs: number;
  /** Number of messages whose lines are stored. */
  storedCount = 0;
  /** Characters in the row; infinite after a restore, so that nothing more is appended. */
  chars = 0;
  /** Bytes of all messages of the chunk, including settled ones, because the row is deleted only as a whole. */
  bytes = 0;
  /** The messages; undefined while they are only in storage. */
  messages: (Message | undefined)[] | undefined = [];
  waiting = 0;
  leased = 0;
  /**
   * Whether a stored message was leased or put back since the last save. This turn must store it, because
   * after a restart the queue must know that the message was delivered.
   */
  isUrgent = false;
  /** For each message: the id of its lease, or WAITING or SETTLED. */
  readonly #leases: number[] = [];
  /** For each message: twice the number of requeues by clients, plus 1 if the message was ever delivered. */
  readonly #history: number[] = [];
  readonly #owners = new Map<number, Owner>();
  /** What protects each message that is not stored (see `Safety`), by the message's index. */
  readonly #safety = new Map<number, Safety>();
  /** No message before this index waits. */
  #from = 0;

  constructor(position: number, createdAtMs: number) {
    this.position = position;
    this.createdAtMs = createdAtMs;
  }

  static restore(head: ChunkHead, state: ChunkState): Chunk {
    const chunk = new Chunk(head.position, head.created_at_ms);
    chunk.messages = undefined;
    chunk.storedCount = head.event_count;
    chunk.bytes = head.byte_count;
    chunk.chars = Number.POSITIVE_INFINITY;
    for (const [count, lease, owner, wasOut, requeues] of state.runs) {
      for (let step = 0; step < count; step++) {
        chunk.#note(lease > 0 ? lease + step : lease, state.owners[owner], 2 * requeues + wasOut);
      }
    }
    return chunk;
  }

  get count(): number {
    return this.#leases.length;
  }

  /** Number of messages that are not settled. */
  get open(): number {
    return this.waiting + this.leased;
  }

  get unstoredCount(): number {
    return this.count - this.storedCount;
  }

  /** `safety`: what protects the message until it is stored; undefined = nothing. */
  add(message: Message, safety: Safety | undefined): void {
    if (safety) this.#safety.set(this.count, safety);
    this.messages?.push(message);
    this.createdAtMs = Math.min(this.createdAtMs, message.createdAtMs);
    this.bytes += messageBytes(message);
    this.#note(WAITING, undefined, 0);
  }

  /** Index of the first waiting message; undefined if there is none. */
  nextWaiting(): number | undefined {
    while (this.#from < this.count && this.#leases[this.#from] !== WAITING) this.#from++;
    return this.#from < this.count ? this.#from : undefined;
  }

  /** Index of the first message that is not settled; -1 if all are. */
  firstOpen(): number {
    return this.#leases.findIndex((lease) => lease !== SETTLED);
  }

  /** Whether the message is not settled. */
  isOpen(index: number): boolean {
    return this.#leases[index] !== undefined && this.#leases[index] !== SETTLED;
  }

  isLeased(index: number): boolean {
    return (this.#leases[index] ?? SETTLED) > WAITING;
  }

  wasOut(index: number): boolean {
    return (this.#history[index] ?? 0) % 2 === 1;
  }

  requeues(index: number): number {
    return (this.#history[index] ?? 0) >> 1;
  }

  lease(index: number, lease: number, owner: Owner): void {
    this.#leases[index] = lease;
    this.#owners.set(index, owner);
    this.#history[index] = (this.#history[index] ?? 0) | 1;
    this.waiting -= 1;
    this.leased += 1;
    this.isUrgent ||= index < this.storedCount;
  }

  /** Index of the leased message; undefined if the lease does not exist. */
  find(lease: number): number | undefined {
    const index = this.#leases.indexOf(lease);
    return index < 0 ? undefined : index;
  }

  /** Puts a message back. `isRequeued`: the client requeued it, so it counts toward the delivery limit. */
  putBack(index: number, isRequeued: boolean): void {
    this.#leases[index] = WAITING;
    this.#owners.delete(index);
    if (isRequeued) this.#history[index] = (this.#history[index] ?? 0) + 2;
    this.leased -= 1;
    this.waiting += 1;
    this.#from = Math.min(this.#from, index);
    this.isUrgent ||= index < this.storedCount;
  }

  settle(index: number): void {
    if (this.#leases[index] === WAITING) this.waiting -= 1;
    else this.leased -= 1;
    this.#leases[index] = SETTLED;
    this.#owners.delete(index);
    this.#safety.delete(index);
    if (this.messages) this.messages[index] = undefined;
  }

  /** All leases with their owners. */
  *held(): Generator<{ id: number; owner: Owner }> {
    for (const [index, owner] of this.#owners) yield { id: this.#leases[index] ?? 0, owner };
  }

  /** The messages that are not stored and not settled: whether they wait, and what protects them. */
  *unstored(): Generator<{ isWaiting: boolean; safety: Safety | undefined }> {
    for (let index = this.storedCount; index < this.count; index++) {
      const lease = this.#leases[index];
      if (lease !== SETTLED) yield { isWaiting: lease === WAITING, safety: this.#safety.get(index) };
    }
  }

  /** Returns the lines that are not stored yet, and marks all as stored; a settled message is an empty line. */
  takeLines(): string {
    const messages = this.messages?.slice(this.storedCount) ?? [];
    this.storedCount = this.count;
    this.isUrgent = false;
    this.#safety.clear();
    return messages.map((message) => (message ? `${JSON.stringify(message)}\n` : '\n')).join('');
  }

  readLines(data: string): void {
    const lines = data.split('\n').slice(0, this.count);
    this.messages = lines.map((line, index) =>
      line === '' || this.#leases[index] === SETTLED ? undefined : (JSON.parse(line) as Message),
    );
  }

  state(): ChunkState {
    const owners: Owner[] = [];
    const ownerIndexes = new Map<Owner, number>();
    const runs: ChunkRun[] = [];
    for (const [index, lease] of this.#leases.entries()) {
      const owner = this.#owners.get(index);
      let ownerIndex = owner ? ownerIndexes.get(owner) : -1;
      if (owner && ownerIndex === undefined) {
        // Copies only these fields, because the owner may be a consumer, which has more.
        const { readerId, channel, tag } = owner;
        ownerIndex = owners.push({ readerId, channel, tag }) - 1;
        ownerIndexes.set(owner, ownerIndex);
      }
      const wasOut = this.wasOut(index) ? 1 : 0;
      const one: ChunkRun = [1, lease, ownerIndex ?? -1, wasOut, this.requeues(index)];
      const last = runs.at(-1);
      if (last && continues(last, one)) last[0] += 1;
      else runs.push(one);
    }
    return { owners, runs };
  }

  #note(lease: number, owner: Owner | undefined, history: number): void {
    if (owner) this.#owners.set(this.count, owner);
    this.#leases.push(lease);
    this.#history.push(history);
    if (lease === WAITING) this.waiting += 1;
    else if (lease > WAITING) this.leased += 1;
  }
}

function continues(run: ChunkRun, next: ChunkRun): boolean {
  const lease = run[1] > WAITING ? run[1] + run[0] : run[1];
  return next[1] === lease && next[2] === run[2] && next[3] === run[3] && next[4] === run[4];
}
