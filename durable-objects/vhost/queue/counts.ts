/** How much a queue of rows holds, and how much of it was dropped: kept in memory, and in a row of its own. */
import type { Turn } from '../../object/turn.ts';
import { Drops } from './drops.ts';
import type { QueueRows } from './rows.ts';

export class QueueCounts {
  readonly #rows: QueueRows;
  readonly #name: string;
  #messages: number;
  #bytes: number;
  readonly drops: Drops;
  #isChanged = false;

  constructor(rows: QueueRows, name: string) {
    this.#rows = rows;
    this.#name = name;
    const counts = rows.counts(name);
    this.#messages = counts?.message_count ?? 0;
    this.#bytes = counts?.byte_count ?? 0;
    this.drops = new Drops(counts);
  }

  get messages(): number {
    return this.#messages;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(messages: number, bytes: number): void {
    this.#messages += messages;
    this.#bytes += bytes;
  }

  /** Whether its row lags behind. */
  get isChanged(): boolean {
    return this.#isChanged || this.drops.isChanged;
  }

  noteChange(): void {
    this.#isChanged = true;
  }

  /** Without what is in memory alone: a wake finds no more. */
  write(turn: Turn, unstored: { size: number; bytes: number }): void {
    this.#isChanged = false;
    this.#rows.setCounts(turn, {
      name: this.#name,
      message_count: this.#messages - unstored.size,
      byte_count: this.#bytes - unstored.bytes,
      ...this.drops.take(),
    });
  }
}
