/**
 * The deliveries of one channel that the client has not settled: tag to lease, in order. Their age is known
 * from the last tag at each periodic check; no time is stored per delivery.
 */
import { LIMIT } from '../../protocol/limits.ts';

export class Unacked {
  #lastTag = 0;
  readonly #leases = new Map<number, number>();
  /** The last tag at each recent check that found a new one. */
  #looks: { tag: number; atMs: number }[] = [];
  /** All tags up to this one were delivered too long ago. */
  #oldTag = 0;

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
    // A channel without new deliveries stores no checks.
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
