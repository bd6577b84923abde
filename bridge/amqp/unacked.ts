/**
 * The deliveries of one channel that the client has not settled: tag to lease, in order. No time is stored
 * per delivery: each periodic check stores the time and the last tag, so all deliveries up to that tag are at
 * least that old.
 */
import { LIMIT } from '../../protocol/limits.ts';

export class Unacked {
  #lastTag = 0;
  readonly #leases = new Map<number, number>();
  /** Time and last tag of each recent check that found new deliveries. */
  #looks: { tag: number; atMs: number }[] = [];
  /** All tags up to this one were delivered too long ago. */
  #oldTag = 0;

  get size(): number {
    return this.#leases.size;
  }

  /** Returns the tag of a new delivery. Without a lease (no_ack) there is nothing to settle. */
  add(lease: number | null): number {
    this.#lastTag += 1;
    if (lease !== null) this.#leases.set(this.#lastTag, lease);
    return this.#lastTag;
  }

  /**
   * Removes and returns the leases that a settlement names: one, or with `multiple` all up to `tag` (tag 0:
   * all, even if none is outstanding). Returns undefined if `tag` is not outstanding.
   */
  take(tag: number, multiple: boolean): number[] | undefined {
    if (multiple && tag === 0) return this.takeAll();
    const lease = this.#leases.get(tag);
    if (lease === undefined) return undefined;
    if (!multiple) {
      this.#leases.delete(tag);
      return [lease];
    }
    const leases: number[] = [];
    for (const [known, held] of this.#leases) {
      if (known > tag) break;
      leases.push(held);
      this.#leases.delete(known);
    }
    return leases;
  }

  /** Whether a delivery has been outstanding for too long [C-6.4]. Each call also records the last tag. */
  isOverdue(now: number): boolean {
    const isOld = ({ atMs }: { atMs: number }) => now - atMs >= LIMIT.unacknowledgedMs;
    this.#oldTag = this.#looks.findLast(isOld)?.tag ?? this.#oldTag;
    this.#looks = this.#looks.filter((look) => !isOld(look));
    // A check is stored only if there was a new delivery since the previous one.
    const known = this.#looks.at(-1)?.tag ?? this.#oldTag;
    if (this.#lastTag > known) this.#looks.push({ tag: this.#lastTag, atMs: now });
    const [oldest] = this.#leases.keys();
    return oldest !== undefined && oldest <= this.#oldTag;
  }

  takeAll(): number[] {
    const leases = [...this.#leases.values()];
    this.#leases.clear();
    return leases;
  }
}
