/** The messages of a queue that are in memory alone: handed out as they came, and kept by their sites meanwhile. */
import { VHOST_BOUNDS } from '../bounds.ts';
import type { KeptBy } from './queue.ts';
import type { MessageRow } from './rows.ts';

/** A row in memory. One that is not stored yet is written as it then is. */
export interface Entry {
  row: MessageRow;
  isStored: boolean;
  keptBy?: KeptBy | undefined;
}

export class Unstored {
  /** By position, and in its order. */
  readonly #entries = new Map<number, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    let bytes = 0;
    for (const { row } of this.#entries.values()) bytes += row.bytes;
    return bytes;
  }

  /** Whether one of them waits, or is kept by nobody else, or they are too many: all are to be stored. */
  get mustGo(): boolean {
    if (this.#entries.size > VHOST_BOUNDS.unstoredMessages) return true;
    for (const { row, keptBy } of this.#entries.values()) if (!keptBy || row.lease === null) return true;
    return false;
  }

  /** The first of a site's messages, by its sequence there. */
  firstKept(siteId: string): number | undefined {
    for (const { keptBy } of this.#entries.values()) if (keptBy?.siteId === siteId) return keptBy.sequence;
    return undefined;
  }

  add(entry: Entry): void {
    this.#entries.set(entry.row.position, entry);
  }

  /** Returns whether it was one of them. */
  delete(position: number): boolean {
    return this.#entries.delete(position);
  }

  takeAll(): Entry[] {
    const all = [...this.#entries.values()];
    this.#entries.clear();
    return all;
  }
}
