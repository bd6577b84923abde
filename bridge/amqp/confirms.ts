/**
 * Publisher confirms of one channel. Publishes are stored out of order (each Site answers for itself), confirms are
 * coalesced: one `ack multiple` up to the first that is still open, single ones beyond it.
 */
export interface Confirmation {
  kind: 'ack' | 'nack';
  tag: number;
  multiple: boolean;
}

type Outcome = 'ack' | 'nack' | 'told';

export class Confirms {
  #lastTag = 0;
  /** The lowest tag that is not settled. */
  #open = 1;
  /** Settled at or above it. */
  readonly #settled = new Map<number, Outcome>();
  #fresh: { tag: number; kind: 'ack' | 'nack' }[] = [];

  /** The tag of the next publish. */
  next(): number {
    this.#lastTag += 1;
    return this.#lastTag;
  }

  settle(tag: number, kind: 'ack' | 'nack'): void {
    this.#settled.set(tag, kind);
    this.#fresh.push({ tag, kind });
  }

  /** What to tell the publisher now, in this order. */
  take(): Confirmation[] {
    if (this.#fresh.length === 0) return [];
    const fresh = this.#fresh.sort((left, right) => left.tag - right.tag);
    this.#fresh = [];
    const confirmations: Confirmation[] = [];
    // A nack goes first: an `ack multiple` above it would cover it.
    for (const { tag, kind } of fresh) {
      if (kind !== 'nack') continue;
      confirmations.push({ kind, tag, multiple: false });
      this.#settled.set(tag, 'told');
    }
    const contiguous = this.#advance();
    if (contiguous.tag > 0) {
      confirmations.push({ kind: 'ack', tag: contiguous.tag, multiple: contiguous.count > 1 });
    }
    for (const { tag } of fresh) {
      if (this.#settled.get(tag) !== 'ack') continue;
      confirmations.push({ kind: 'ack', tag, multiple: false });
      this.#settled.set(tag, 'told');
    }
    return confirmations;
  }

  /** Moves past all that is settled without a gap; the highest ack among it that was not told, and how many. */
  #advance(): { tag: number; count: number } {
    const acked = { tag: 0, count: 0 };
    for (;;) {
      const outcome = this.#settled.get(this.#open);
      if (!outcome) return acked;
      if (outcome === 'ack') {
        acked.tag = this.#open;
        acked.count += 1;
      }
      this.#settled.delete(this.#open);
      this.#open += 1;
    }
  }
}
