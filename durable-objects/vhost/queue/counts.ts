/** The messages, bytes and drops of a queue of rows, in memory and in one row. */
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

  /** Whether the row is out of date. */
  get isChanged(): boolean {
    return this.#isChanged || this.drops.isChanged;
  }

  noteChange(): void {
    this.#isChanged = true;
  }

  /** Writes the counts without the messages that are only in memory, because a restart does not find those. */
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
