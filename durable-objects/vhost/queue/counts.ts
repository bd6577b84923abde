/** How much a queue of rows holds, and how much of it was dropped: kept in memory, and in a row of its own. */
import type { Turn } from '../../object/turn.ts';
import type { QueueRows } from './rows.ts';

export class QueueCounts {
  readonly #rows: QueueRows;
  readonly #name: string;
  #messages: number;
  #bytes: number;
  #dropped: number;
  /** Whether its row lags behind. */
  isChanged = false;

  constructor(rows: QueueRows, name: string) {
    this.#rows = rows;
    this.#name = name;
    const counts = rows.counts(name);
    this.#messages = counts?.message_count ?? 0;
    this.#bytes = counts?.byte_count ?? 0;
    this.#dropped = counts?.dropped_count ?? 0;
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

  drop(): void {
    this.#dropped += 1;
    this.isChanged = true;
  }

  /** Without what is in memory alone: a wake finds no more. */
  write(turn: Turn, unstored: { size: number; bytes: number }): void {
    this.isChanged = false;
    this.#rows.setCounts(turn, {
      name: this.#name,
      message_count: this.#messages - unstored.size,
      byte_count: this.#bytes - unstored.bytes,
      dropped_count: this.#dropped,
    });
  }
}
