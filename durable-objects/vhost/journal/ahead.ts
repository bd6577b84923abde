/**
 * After a crash: how far the outbox of each site is in the journal, where that is further than in the table `received`,
 * which is for the queues, too. Sites then send events again that the journal has, and it ignores them. A site is here
 * until it has sent all of them. Without a crash no site is here.
 */
import type { Turn } from '../../object/turn.ts';
import type { JournalRows } from './rows.ts';

export class Ahead {
  readonly #rows: JournalRows;
  #sequences = new Map<string, number>();
  /** Sites that the table `journaled` has with their current sequence. */
  #stored = new Set<string>();

  constructor(rows: JournalRows) {
    this.#rows = rows;
  }

  /** Reads the sites from storage. `from`: the first sequence in the journal that no table covers; absent = none. */
  load(from: number | undefined): void {
    this.#sequences = new Map(this.#rows.journaled());
    this.#stored = new Set(this.#sequences.keys());
    const later = from === undefined ? [] : this.#rows.sitesFrom(from);
    for (const [siteId, sequence] of later.flatMap((text) => [...readSites(text)])) {
      if (sequence <= this.#rows.receivedFrom(siteId)) continue;
      this.#sequences.set(siteId, sequence);
      this.#stored.delete(siteId);
    }
  }

  /** Whether the journal has the event already. */
  has(turn: Turn, { siteId, sequence }: { siteId: string; sequence: number }): boolean {
    const ahead = this.#sequences.get(siteId);
    if (ahead === undefined) return false;
    if (sequence >= ahead) {
      this.#sequences.delete(siteId);
      if (this.#stored.delete(siteId)) this.#rows.deleteJournaled(turn, siteId);
    }
    return sequence <= ahead;
  }

  /** Stores all sites. */
  store(turn: Turn): void {
    for (const [siteId, sequence] of this.#sequences) {
      if (this.#stored.has(siteId)) continue;
      this.#rows.setJournaled(turn, siteId, sequence);
      this.#stored.add(siteId);
    }
  }
}

/** The column `sites` of a row. */
export function readSites(text: string): Map<string, number> {
  return new Map(Object.entries(JSON.parse(text) as Record<string, number>));
}
