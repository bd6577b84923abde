/** The messages of a queue that are only in memory: delivered at once, and kept by their sites in the meantime. */
import { VHOST_BOUNDS } from '../bounds.ts';
import type { KeptBy } from './queue.ts';
import type { MessageRow } from './rows.ts';

/** A message row in memory. If it is not stored yet, it is inserted later with its then current values. */
export interface Entry {
  row: MessageRow;
  isStored: boolean;
  keptBy?: KeptBy | undefined;
}

export class Unstored {
  /** By position, in ascending order. */
  readonly #entries = new Map<number, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    let bytes = 0;
    for (const { row } of this.#entries.values()) bytes += row.bytes;
    return bytes;
  }

  /** Whether all must be stored: one of them waits or is not kept by its site, or there are too many. */
  get mustGo(): boolean {
    if (this.#entries.size > VHOST_BOUNDS.unstoredMessages) return true;
    for (const { row, keptBy } of this.#entries.values()) if (!keptBy || row.lease === null) return true;
    return false;
  }

  /** Outbox sequence of the first message of a site. */
  firstKept(siteId: string): number | undefined {
    for (const { keptBy } of this.#entries.values()) if (keptBy?.siteId === siteId) return keptBy.sequence;
    return undefined;
  }

  add(entry: Entry): void {
    this.#entries.set(entry.row.position, entry);
  }

  /** Returns whether the message was only in memory. */
  delete(position: number): boolean {
    return this.#entries.delete(position);
  }

  takeAll(): Entry[] {
    const all = [...this.#entries.values()];
    this.#entries.clear();
    return all;
  }
}
