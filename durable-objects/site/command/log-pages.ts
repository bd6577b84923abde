/** The rows of the command log by their place and their time: both grow together. */
import type { Sql } from '../../object/sql.ts';
import { timeOfUuid } from '../../object/timed-uuid.ts';
import { sentBy } from '../sight.ts';

/** A time after all rows. */
const LATEST = Number.MAX_SAFE_INTEGER;

/** `Row`: a row of the table `command`. */
export class LogPages<Row extends Record<string, string | number | null>> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * One page of the rows of these partners (undefined: of all) that were recorded at `atMs` or before, newest first, and
   * the number of these rows. From some sequence on the log has no gaps, so a page is found without scanning, and only the
   * few rows before it are counted.
   */
  read(
    page: number,
    pageSize: number,
    partners: readonly string[] | undefined,
    atMs = LATEST,
  ): { rows: Row[]; total: number } {
    const first = this.#gaplessFrom();
    const last = this.#lastUntil(atMs);
    const { sql, bindings } = sentBy(partners);
    const kept = this.#number(
      `SELECT count(*) AS number FROM command WHERE sequence < ? AND created_at_ms <= ? AND ${sql}`,
      first,
      atMs,
      ...bindings,
    );
    const ranks = partners ? this.#ranksOf(partners, first) : (sequence: number) => sequence - first + 1;
    const gapless = Math.max(0, ranks(last));
    const skipped = (page - 1) * pageSize;
    const rows = this.#gaplessRows(
      first,
      sequenceAt(ranks, first, last, gapless - skipped),
      pageSize,
      partners,
    );
    if (rows.length === pageSize) return { rows, total: gapless + (kept ?? 0) };
    const older = this.#sql.all<Row>(
      `SELECT * FROM command WHERE sequence < ? AND created_at_ms <= ? AND ${sql} ORDER BY sequence DESC LIMIT ? OFFSET ?`,
      first,
      atMs,
      ...bindings,
      pageSize - rows.length,
      Math.max(0, skipped - gapless),
    );
    return { rows: [...rows, ...older], total: gapless + (kept ?? 0) };
  }

  /** How many rows of these partners are in [first, sequence]. */
  #ranksOf(partners: readonly string[], first: number): (sequence: number) => number {
    const starts = partners.map((partner) => ({
      partner,
      start: this.#number(
        `SELECT partner_place AS number FROM command WHERE partner_id = ? AND sequence >= ?
         ORDER BY sequence LIMIT 1`,
        partner,
        first,
      ),
    }));
    return (sequence) =>
      starts.reduce((sum, { partner, start }) => {
        const place =
          start === undefined
            ? undefined
            : this.#number(
                `SELECT partner_place AS number FROM command WHERE partner_id = ? AND sequence BETWEEN ? AND ?
                 ORDER BY sequence DESC LIMIT 1`,
                ...[partner, first, sequence],
              );
        return start === undefined || place === undefined ? sum : sum + place - start + 1;
      }, 0);
  }

  /** The newest rows in [first, from]. */
  #gaplessRows(first: number, from: number, limit: number, partners: readonly string[] | undefined): Row[] {
    const read = (where: `${string}`, ...bindings: string[]) =>
      this.#sql.all<Row & { sequence: number }>(
        `SELECT * FROM command WHERE sequence <= ? AND sequence >= ? AND ${where} ORDER BY sequence DESC LIMIT ?`,
        from,
        first,
        ...bindings,
        limit,
      );
    if (!partners) return read('TRUE');
    // One query for each partner, so that each reads only rows that may be shown.
    const rows = partners.flatMap((partner) => read('partner_id = ?', partner));
    return rows.sort((one, other) => other.sequence - one.sequence).slice(0, limit);
  }

  /** The row with this id, without an index: the id begins with the time at which the row was recorded (`uuidAt`). */
  find(id: string): Row | undefined {
    const recordedMs = timeOfUuid(id);
    for (let sequence = this.#firstSince(recordedMs); ; sequence++) {
      const row = this.#sql.one<Row & { id: string; created_at_ms: number }>(
        'SELECT * FROM command WHERE sequence = ?',
        sequence,
      );
      if (row?.id === id) return row;
      if (row?.created_at_ms !== recordedMs) break;
    }
    return this.#sql.one<Row>('SELECT * FROM command WHERE sequence < ? AND id = ?', this.#gaplessFrom(), id);
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
  #number(query: `SELECT ${string}`, ...bindings: (number | string)[]): number | undefined {
    return this.#sql.one<{ number: number | null }>(query, ...bindings)?.number ?? undefined;
  }
}

/** The first sequence in [first, last] with this rank; before `first` for a rank of 0 or less. */
function sequenceAt(rankOf: (sequence: number) => number, first: number, last: number, rank: number): number {
  if (rank <= 0) return first - 1;
  let [low, high] = [first, last];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (rankOf(middle) < rank) low = middle + 1;
    else high = middle;
  }
  return low;
}
