/**
 * Publisher confirms of one channel. The outcomes of publishes arrive out of order, because each Site answers
 * separately. Confirms are combined: one `ack multiple` for all tags below the first without an outcome,
 * single acks for tags above it.
 */
export interface Confirmation {
  kind: 'ack' | 'nack';
  tag: number;
  multiple: boolean;
}

type Outcome = 'ack' | 'nack' | 'sent';

export class Confirms {
  #lastTag = 0;
  /** The lowest tag without an outcome. */
  #open = 1;
  /** Outcomes of the tags at or above `#open`. */
  readonly #outcomes = new Map<number, Outcome>();
  #fresh: { tag: number; kind: 'ack' | 'nack' }[] = [];

  /** The tag of the next publish. */
  next(): number {
    this.#lastTag += 1;
    return this.#lastTag;
  }

  setOutcome(tag: number, kind: 'ack' | 'nack'): void {
    this.#outcomes.set(tag, kind);
    this.#fresh.push({ tag, kind });
  }

  /** Removes and returns the confirms to send now, in this order. */
  take(): Confirmation[] {
    if (this.#fresh.length === 0) return [];
    const fresh = this.#fresh.sort((left, right) => left.tag - right.tag);
    this.#fresh = [];
    const confirmations: Confirmation[] = [];
    // Nacks are sent first, because an `ack multiple` with a higher tag would also confirm these tags.
    for (const { tag, kind } of fresh) {
      if (kind !== 'nack') continue;
      confirmations.push({ kind, tag, multiple: false });
      this.#outcomes.set(tag, 'sent');
    }
    const contiguous = this.#advance();
    if (contiguous.tag > 0) {
      confirmations.push({ kind: 'ack', tag: contiguous.tag, multiple: contiguous.count > 1 });
    }
    for (const { tag } of fresh) {
      if (this.#outcomes.get(tag) !== 'ack') continue;
      confirmations.push({ kind: 'ack', tag, multiple: false });
      this.#outcomes.set(tag, 'sent');
    }
    return confirmations;
  }

  /**
   * Moves `#open` to the first tag without an outcome. Of the tags that it passes, `count` have an ack that was not sent
   * yet; `tag` is the highest of these, 0 if there is none.
   */
  #advance(): { tag: number; count: number } {
    const acked = { tag: 0, count: 0 };
    for (;;) {
      const outcome = this.#outcomes.get(this.#open);
      if (!outcome) return acked;
      if (outcome === 'ack') {
        acked.tag = this.#open;
        acked.count += 1;
      }
      this.#outcomes.delete(this.#open);
      this.#open += 1;
    }
  }
}
