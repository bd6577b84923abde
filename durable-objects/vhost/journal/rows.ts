/** Rows of the event journal: each has consecutive events, one line for each; lines are only appended. */
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';

export type JournalHead = {
  /** The sequence of the first event. */
  first: number;
  event_count: number;
  /** Time of the newest event. */
  latest_at_ms: number;
  /** Time of the first event. */
  begun_at_ms: number;
  byte_count: number;
  /** Bytes of all rows before this one, since the journal began. */
  bytes_before: number;
};

/** The newest row, to which lines are appended. */
export type JournalTail = JournalHead & {
  /** JSON: the last outbox sequence of each site that has an event in this row. */
  sites: string;
  /** All outbox sequences of the events up to this one are in the table `received` or `journaled`. */
  covered: number;
};

export type JournalLines = { first: number; event_count: number; data: string };

const HEAD = 'first, event_count, latest_at_ms, begun_at_ms, byte_count, bytes_before';
/** The first of the rows from the one that has a sequence. */
const HOLDS = 'first >= (SELECT coalesce(max(first), 0) FROM journal WHERE first <= ?)';

export class JournalRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  oldest(): JournalHead | undefined {
    return this.#sql.one<JournalHead>(`SELECT ${HEAD} FROM journal ORDER BY first LIMIT 1`);
  }

  /** The first sequence of the first row with an event of this time or later. */
  firstSince(atMs: number): number | undefined {
    const query = 'SELECT first FROM journal WHERE latest_at_ms >= ? ORDER BY first LIMIT 1';
    return this.#sql.one<{ first: number }>(query, atMs)?.first;
  }

  newest(): (JournalTail & { chars: number }) | undefined {
    return this.#sql.one<JournalTail & { chars: number }>(
      `SELECT ${HEAD}, sites, covered, length(data) AS chars FROM journal ORDER BY first DESC LIMIT 1`,
    );
  }

  /** The sites of the row that has this sequence, and of the later rows, in order. */
  sitesFrom(sequence: number): string[] {
    const query = `SELECT sites FROM journal WHERE ${HOLDS} ORDER BY first` as const;
    return this.#sql.all<{ sites: string }>(query, sequence).map(({ sites }) => sites);
  }

  /** The row that has this sequence; the first row if the sequence is older, the last one if it is newer. */
  linesAt(sequence: number): JournalLines | undefined {
    const query =
      `SELECT first, event_count, data FROM journal WHERE ${HOLDS} ORDER BY first LIMIT 1` as const;
    return this.#sql.one<JournalLines>(query, sequence);
  }

  /** The newest row that began at a time or before, by its first sequence; undefined: there is none. */
  begunBefore(atMs: number): number | undefined {
    const query =
      'SELECT first FROM journal WHERE begun_at_ms <= ? ORDER BY begun_at_ms DESC, first DESC LIMIT 1';
    return this.#sql.one<{ first: number }>(query, atMs)?.first;
  }

  /** Rows from the one before `begunBefore` on, up to a number of them, with their marks. */
  around(atMs: number, rows: number): (JournalLines & { marks: string })[] {
    return this.#sql.all<JournalLines & { marks: string }>(
      `SELECT first, event_count, data, marks FROM journal
       WHERE first >= coalesce((SELECT max(first) FROM journal WHERE first < ?), 0) ORDER BY first LIMIT ?`,
      this.begunBefore(atMs) ?? 0,
      rows,
    );
  }

  /** The last rows, newest first. */
  lastLines(rows: number): JournalLines[] {
    const query = 'SELECT first, event_count, data FROM journal ORDER BY first DESC LIMIT ?';
    return this.#sql.all<JournalLines>(query, rows);
  }

  insert(turn: Turn, tail: JournalTail, lines: string, marks: string): void {
    turn.insert('journal', { ...tail, sites: boundedRow(tail.sites), data: boundedRow(lines), marks });
  }

  /** `stored` is always added, `confirmed` only to a row that is not full of marks. */
  append(turn: Turn, tail: JournalTail, lines: string, stored: string, confirmed: string): void {
    turn.write(
      `UPDATE journal
       SET event_count = ?, latest_at_ms = ?, byte_count = ?, sites = ?, covered = ?, data = data || ?,
         marks = marks || ? || CASE WHEN length(marks) < ? THEN ? ELSE '' END
       WHERE first = ?`,
      tail.event_count,
      tail.latest_at_ms,
      tail.byte_count,
      boundedRow(tail.sites),
      tail.covered,
      boundedRow(lines),
      stored,
      VHOST_BOUNDS.journalMarksChars,
      boundedRow(confirmed),
      tail.first,
    );
  }

  /** Adds marks to a row that is not full of them. */
  mark(turn: Turn, first: number, marks: string): void {
    turn.write(
      'UPDATE journal SET marks = marks || ? WHERE first = ? AND length(marks) < ?',
      boundedRow(marks),
      first,
      VHOST_BOUNDS.journalMarksChars,
    );
  }

  /** The table `received`: the last outbox sequence of a site that journal and queues have. */
  receivedFrom(siteId: string): number {
    const query = 'SELECT sequence FROM received WHERE site_id = ?';
    return this.#sql.one<{ sequence: number }>(query, siteId)?.sequence ?? 0;
  }

  /** The table `journaled`: outbox sequences by site. */
  journaled(): [siteId: string, sequence: number][] {
    const rows = this.#sql.all<{ site_id: string; sequence: number }>('SELECT * FROM journaled');
    return rows.map((row) => [row.site_id, row.sequence]);
  }

  setJournaled(turn: Turn, siteId: string, sequence: number): void {
    turn.replace('journaled', { site_id: siteId, sequence });
  }

  deleteJournaled(turn: Turn, siteId: string): void {
    turn.write('DELETE FROM journaled WHERE site_id = ?', siteId);
  }

  delete(turn: Turn, first: number): void {
    turn.write('DELETE FROM journal WHERE first = ?', first);
  }
}
