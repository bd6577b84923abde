/** Messages that left a queue without being acknowledged, by reason, since the queue was created. */
import type { QueueDrop } from '../../metrics/families.ts';
import type { DropColumns } from './rows.ts';

export class Drops {
  readonly #counts: Record<QueueDrop, number>;
  /** Whether the queue's row is out of date. */
  isChanged = false;

  constructor(row: DropColumns | undefined) {
    const dropped = row?.dropped_count ?? 0;
    const age = row?.aged_count ?? 0;
    this.#counts = {
      limit: dropped - age,
      age,
      deliveries: row?.undelivered_count ?? 0,
      rejected: row?.rejected_count ?? 0,
    };
  }

  get counts(): Readonly<Record<QueueDrop, number>> {
    return this.#counts;
  }

  add(reason: QueueDrop, messages = 1): void {
    this.#counts[reason] += messages;
    this.isChanged = true;
  }

  /** Returns the columns for the row and marks them as written. */
  take(): DropColumns {
    this.isChanged = false;
    const { limit, age, deliveries, rejected } = this.#counts;
    return {
      dropped_count: limit + age,
      aged_count: age,
      undelivered_count: deliveries,
      rejected_count: rejected,
    };
  }
}
