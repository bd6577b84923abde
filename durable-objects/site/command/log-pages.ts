/** The rows of the command log by their place and their time: both grow together. */
import type { Sql } from '../../object/sql.ts';

/** A time after all rows. */
const LATEST = Number.MAX_SAFE_INTEGER;

/** `Row`: a row of the table `command`. */
export class LogPages<Row extends Record<string, string | number | null>> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * One page of the rows that were recorded at `atMs` or before, newest first, and the number of these rows. From some
   * sequence on the log has no gaps, so a page is found without scanning, and only the few rows before it are counted.
   */
  read(page: number, pageSize: number, atMs = LATEST): { rows: Row[]; total: number } {
    const first = this.#gaplessFrom();
    const last = this.#lastUntil(atMs);
    const kept = this.#number(
      'SELECT count(*) AS number FROM command WHERE sequence < ? AND created_at_ms <= ?',
      first,
      atMs,
    );
    const total = Math.max(0, last - first + 1) + (kept ?? 0);
    return { rows: this.#page(first, last - (page - 1) * pageSize, pageSize, atMs), total };
  }

  #page(first: number, from: number, pageSize: number, atMs: number): Row[] {
    const rows = this.#sql.all<Row>(
      'SELECT * FROM command WHERE sequence <= ? AND sequence >= ? ORDER BY sequence DESC LIMIT ?',
      from,
      first,
      pageSize,
    );
    if (rows.length === pageSize) return rows;
    const kept = this.#sql.all<Row>(
      'SELECT * FROM command WHERE sequence < ? AND created_at_ms <= ? ORDER BY sequence DESC LIMIT ? OFFSET ?',
      first,
      atMs,
      pageSize - rows.length,
      Math.max(0, first - 1 - from),
    );
    return [...rows, ...kept];
  }

  /** The rows that were recorded in [from, to), oldest first. They are in the order of their sequence, so a search finds the first. */
  recordedIn(fromMs: number, toMs: number, limit: number): Row[] {
    return this.#sql.all<Row>(
      'SELECT * FROM command WHERE sequence >= ? AND sequence < ? ORDER BY sequence LIMIT ?',
      this.#firstSince(fromMs),
      this.#firstSince(toMs),
      limit,
    );
  }

  /** The sequence of the first row that was recorded at this time or later. Without one: the sequence of the next new row. */
  #firstSince(atMs: number): number {
    let low = this.#gaplessFrom();
    let high = this.newest() + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const row = this.#sql.one<{ at: number }>(
        'SELECT created_at_ms AS at FROM command WHERE sequence = ?',
        middle,
      );
      const isOlder = (row?.at ?? 0) < atMs;
      if (isOlder) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The sequence of the newest row. Without rows: 0. */
  newest(): number {
    return this.#number('SELECT max(sequence) AS number FROM command') ?? 0;
  }

  /** The sequence of the last row without gaps before it that was recorded at this time or before. */
  #lastUntil(atMs: number): number {
    return atMs === LATEST ? this.newest() : this.#firstSince(atMs + 1) - 1;
  }

  #gaplessFrom(): number {
    const start = this.#number('SELECT log_start AS number FROM counters') ?? 0;
    const oldest = this.#number('SELECT min(sequence) AS number FROM command');
    return Math.max(start, oldest ?? 1);
  }

  /**
   * The value of the column `number` of a query's only row; undefined if the value is null or the query
   * returns no row.
   */
  #number(query: `SELECT ${string}`, ...bindings: number[]): number | undefined {
    return this.#sql.one<{ number: number | null }>(query, ...bindings)?.number ?? undefined;
  }
}
