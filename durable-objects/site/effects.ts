/** What a transaction leaves to do: outbox rows to insert at its end, and dispatches to send once it stands. */
import type { DispatchRow } from './schema.ts';
import type { NewOutboxRow } from './storage.ts';

export class Effects {
  readonly outbox: NewOutboxRow[] = [];
  readonly dispatches: DispatchRow[] = [];

  emit(...rows: NewOutboxRow[]): void {
    this.outbox.push(...rows);
  }

  send(row: DispatchRow): void {
    this.dispatches.push(row);
  }

  /** Takes in what a nested step left, once that step stands. */
  add(other: Effects): void {
    this.outbox.push(...other.outbox);
    this.dispatches.push(...other.dispatches);
  }
}
