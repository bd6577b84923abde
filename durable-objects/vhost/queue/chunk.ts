/**
 * A run of events in one row. Lines are only appended. The state of each event (waiting, leased or settled)
 * is kept separately in a column of its own; it is small and stays in memory when the lines do not.
 */
import { messageBytes } from '../../../protocol/link/vhost.ts';
import type { ChunkHead, ChunkRun, ChunkState, Message, Owner } from './rows.ts';

const WAITING = 0;
const SETTLED = -1;

export class Chunk {
  readonly position: number;
  readonly createdAtMs: number;
  /** Number of events whose lines are stored. */
  storedCount = 0;
  /** Characters in the row; infinite after a restore, so that nothing more is appended. */
  chars = 0;
  bytes = 0;
  isStateDirty = false;
  /** Whether it has an event that its site keeps until it is stored here. */
  isKept = false;
  /** The messages; undefined while they are only in storage. */
  messages: (Message | undefined)[] | undefined = [];
  waiting = 0;
  leased = 0;
  readonly #leases: number[] = [];
  readonly #owners: (Owner | undefined)[] = [];
  readonly #wasOut: (0 | 1)[] = [];
  readonly #requeues: number[] = [];
  /** No event before this index waits. */
  #from = 0;

  constructor(position: number, createdAtMs: number) {
    this.position = position;
    this.createdAtMs = createdAtMs;
  }

  static restore(head: ChunkHead, state: ChunkState | undefined): Chunk {
    const chunk = new Chunk(head.position, head.created_at_ms);
    chunk.messages = undefined;
    chunk.storedCount = head.event_count;
    chunk.bytes = head.byte_count;
    chunk.chars = Number.POSITIVE_INFINITY;
    for (const [count, lease, owner, wasOut, requeues] of state?.runs ?? []) {
      for (let step = 0; step < count; step++) {
        chunk.#note(lease > 0 ? lease + step : lease, state?.owners[owner], wasOut, requeues);
      }
    }
    while (chunk.count < head.event_count) chunk.#note(WAITING, undefined, 0, 0);
    return chunk;
  }

  get count(): number {
    return this.#leases.length;
  }

  /** Number of events that are not settled. */
  get open(): number {
    return this.waiting + this.leased;
  }

  /** Estimated bytes of the events that are not settled. */
  get openBytes(): number {
    return this.count === 0 ? 0 : Math.round((this.bytes * this.open) / this.count);
  }

  get isStored(): boolean {
    return this.storedCount === this.count;
  }

  add(message: Message): void {
    this.messages?.push(message);
    this.bytes += messageBytes(message);
    this.#note(WAITING, undefined, 0, 0);
  }

  /** Index of the first waiting event; undefined if there is none. */
  nextWaiting(): number | undefined {
    while (this.#from < this.count && this.#leases[this.#from] !== WAITING) this.#from++;
    return this.#from < this.count ? this.#from : undefined;
  }

  /** Index of the first event that is not settled; -1 if all are. */
  firstOpen(): number {
    return this.#leases.findIndex((lease) => lease !== SETTLED);
  }

  wasOut(index: number): boolean {
    return this.#wasOut[index] === 1;
  }

  requeues(index: number): number {
    return this.#requeues[index] ?? 0;
  }

  lease(index: number, lease: number, owner: Owner): void {
    this.#leases[index] = lease;
    this.#owners[index] = owner;
    this.#wasOut[index] = 1;
    this.waiting -= 1;
    this.leased += 1;
    this.isStateDirty = true;
  }

  /** Index of the leased event; undefined if the lease does not exist. */
  find(lease: number): number | undefined {
    const index = this.#leases.indexOf(lease);
    return index < 0 ? undefined : index;
  }

  /** Puts an event back. `isRequeued`: the client requeued it, so it counts toward the delivery limit. */
  putBack(index: number, isRequeued: boolean): void {
    this.#leases[index] = WAITING;
    this.#owners[index] = undefined;
    if (isRequeued) this.#requeues[index] = this.requeues(index) + 1;
    this.leased -= 1;
    this.waiting += 1;
    this.#from = Math.min(this.#from, index);
    this.isStateDirty = true;
  }

  settle(index: number): void {
    if (this.#leases[index] === WAITING) this.waiting -= 1;
    else this.leased -= 1;
    this.#leases[index] = SETTLED;
    this.#owners[index] = undefined;
    if (this.messages) this.messages[index] = undefined;
    this.isStateDirty = true;
  }

  /** All leases with their owners. */
  *held(): Generator<{ lease: number; owner: Owner }> {
    for (const [index, lease] of this.#leases.entries()) {
      const owner = this.#owners[index];
      if (lease > WAITING && owner) yield { lease, owner };
    }
  }

  /** Returns the lines that are not stored yet and marks them as stored; a settled event is an empty line. */
  takeLines(): string {
    const messages = this.messages?.slice(this.storedCount) ?? [];
    this.storedCount = this.count;
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
      const owner = this.#owners[index];
      let ownerIndex = owner ? ownerIndexes.get(owner) : -1;
      if (owner && ownerIndex === undefined) {
        ownerIndex = owners.push(owner) - 1;
        ownerIndexes.set(owner, ownerIndex);
      }
      const one: ChunkRun = [1, lease, ownerIndex ?? -1, this.#wasOut[index] ?? 0, this.requeues(index)];
      const last = runs.at(-1);
      if (last && continues(last, one)) last[0] += 1;
      else runs.push(one);
    }
    return { owners, runs };
  }

  #note(lease: number, owner: Owner | undefined, wasOut: 0 | 1, requeues: number): void {
    this.#leases.push(lease);
    this.#owners.push(owner);
    this.#wasOut.push(wasOut);
    this.#requeues.push(requeues);
    if (lease === WAITING) this.waiting += 1;
    else if (lease > WAITING) this.leased += 1;
  }
}

function continues(run: ChunkRun, next: ChunkRun): boolean {
  const lease = run[1] > WAITING ? run[1] + run[0] : run[1];
  return next[1] === lease && next[2] === run[2] && next[3] === run[3] && next[4] === run[4];
}
