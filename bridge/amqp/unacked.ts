/**
 * Deliveries of one channel that the client has not settled: tag to lease, in order. How old they are is known by the
 * tags that each look found: nothing is kept for each delivery.
 */
import { LIMIT } from '../../protocol/limits.ts';

export class Unacked {
  #lastTag = 0;
  readonly #leases = new Map<number, number>();
  /** The last tag at each look of late that found a new one. */
  #looks: { tag: number; atMs: number }[] = [];
  /** All tags up to it were given out too long ago. */
  #oldTag = 0;

  /** The tag of a delivery. Without a lease (no_ack) there is nothing to settle. */
  add(lease: number | null): number {
    this.#lastTag += 1;
    if (lease !== null) this.#leases.set(this.#lastTag, lease);
    return this.#lastTag;
  }

  /**
   * The leases that a settlement names, no longer held; undefined for a tag that is not outstanding, with `multiple`
   * too, which means all up to it; tag 0 then means all there are, also none.
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

  /** Whether one is outstanding that was delivered too long ago [C-6.4], by the looks before. */
  isOverdue(now: number): boolean {
    const isOld = ({ atMs }: { atMs: number }) => now - atMs >= LIMIT.unacknowledgedMs;
    this.#oldTag = this.#looks.findLast(isOld)?.tag ?? this.#oldTag;
    this.#looks = this.#looks.filter((look) => !isOld(look));
    // A channel that gets nothing keeps no looks.
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
