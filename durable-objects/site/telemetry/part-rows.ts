/**
 * The parts of the telemetry store: packed raw samples and pages of roll-ups, one table per level. A row's id
 * combines the first minute of its stretch of time with the number of the part, so a stretch is found without
 * an index.
 */
import { utf8Length } from '../../../protocol/utf8.ts';
import { boundedBytes } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { Directory, Part } from './part.ts';
import type { Level } from './tables.ts';

export type RolledLevel = Exclude<Level, 'raw'>;

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** How much time one page of a level covers. */
export const PAGE_MS: Readonly<Record<RolledLevel, number>> = { '5m': DAY, '1h': 32 * DAY, '1d': 512 * DAY };
const PARTS_PER_STRETCH = 1_024;
/** The latest time of a `Date`. No part is later, and the id for this time is still a safe integer. */
const LAST_MS = 8.64e15;
/** Parts in memory at the same time, about 128 KB each. */
const PARTS_AT_ONCE = 8;

type PartRow = {
  id: number;
  end_ms: number;
  from_metric: string;
  until_metric: string | null;
  count: number;
  size: number;
  directory: string;
  data: ArrayBuffer;
};

/** A part with the columns of its row. */
export interface StoredPart extends Part {
  id: number;
  startMs: number;
  endMs: number;
  size: number;
}

export type PartHead = Omit<StoredPart, 'data'>;

export class PartRows {
  readonly #sql: Sql;
  readonly #table: string;
  /** Null: no stretch may be deleted. Undefined: not read yet. */
  #oldestEndMs: number | null | undefined;

  constructor(sql: Sql, level: Level) {
    this.#sql = sql;
    this.#table = `telemetry_${level}`;
  }

  /**
   * The parts of the stretches that overlap [fromMs, toMs), in time order; with `metric`, only those that may
   * hold it.
   */
  *between(fromMs: number, toMs: number, metric?: string): Generator<StoredPart> {
    const named =
      metric === undefined ? '' : 'AND from_metric <= ? AND (until_metric IS NULL OR until_metric > ?)';
    const before = this.#sql.one<{ id: number }>(
      `SELECT coalesce(max(id), 0) AS id FROM ${this.#table} WHERE id < ?`,
      idOf(fromMs) + PARTS_PER_STRETCH,
    );
    const first = Math.floor((before?.id ?? 0) / PARTS_PER_STRETCH) * PARTS_PER_STRETCH;
    const rows = this.#sql.each<PartRow>(
      `SELECT id, end_ms, from_metric, until_metric, count, size, directory, data FROM ${this.#table}
       WHERE id < ? AND end_ms > ? ${named} AND id > ? ORDER BY id LIMIT ?`,
      { key: 'id', from: first - 1, rows: PARTS_AT_ONCE },
      idOf(Math.min(toMs, LAST_MS) + MINUTE - 1),
      fromMs,
      ...(metric === undefined ? [] : [metric, metric]),
    );
    for (const row of rows) yield partOf(row);
  }

  /** The parts of the stretch that begins at `startMs`, without their data, ordered by metric. */
  page(startMs: number): PartHead[] {
    return this.#sql
      .all<Omit<PartRow, 'data'>>(
        `SELECT id, end_ms, from_metric, until_metric, count, size, directory FROM ${this.#table}
         WHERE id >= ? AND id < ? ORDER BY from_metric`,
        idOf(startMs),
        idOf(startMs) + PARTS_PER_STRETCH,
      )
      .map(headOf);
  }

  /** One part with its data. */
  whole(head: PartHead): StoredPart {
    const row = this.#sql.one<{ data: ArrayBuffer }>(`SELECT data FROM ${this.#table} WHERE id = ?`, head.id);
    return { ...head, data: new Uint8Array(row?.data ?? new ArrayBuffer(0)) };
  }

  /** The start of the first stretch that begins at or after `startMs`. */
  firstFrom(startMs: number): number | undefined {
    const row = this.#sql.one<{ id: number }>(
      `SELECT id FROM ${this.#table} WHERE id >= ? ORDER BY id LIMIT 1`,
      idOf(startMs),
    );
    return row && startOf(row.id);
  }

  /**
   * When the oldest stretch ends; undefined if it is also the newest, which is kept. Cached: called after
   * every turn.
   */
  oldestEndMs(): number | undefined {
    if (this.#oldestEndMs === undefined) {
      const row = this.#sql.one<{ end_ms: number }>(
        `SELECT end_ms FROM ${this.#table} WHERE id = (SELECT min(id) FROM ${this.#table})
         AND id / ${PARTS_PER_STRETCH} < (SELECT max(id) FROM ${this.#table}) / ${PARTS_PER_STRETCH}`,
      );
      this.#oldestEndMs = row?.end_ms ?? null;
    }
    return this.#oldestEndMs ?? undefined;
  }

  /** Adds parts to a stretch, numbered from `number`; returns their size in bytes. */
  add(turn: Turn, startMs: number, endMs: number, parts: readonly Part[], number = 0): number {
    let size = 0;
    for (const [index, part] of parts.entries())
      size += this.put(turn, idOf(startMs) + number + index, endMs, part);
    return size;
  }

  /** Writes one part; returns its size in bytes. */
  put(turn: Turn, id: number, endMs: number, part: Part): number {
    const directory = JSON.stringify(part.directory);
    const directoryBytes = utf8Length(directory);
    const size = directoryBytes + part.data.length;
    this.#changed(turn);
    turn.write(
      `INSERT OR REPLACE INTO ${this.#table}
         (id, end_ms, from_metric, until_metric, count, size, directory, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      endMs,
      part.fromMetric,
      part.untilMetric,
      part.count,
      size,
      directory,
      boundedBytes(part.data, directoryBytes),
    );
    return size;
  }

  /**
   * Deletes whole stretches, oldest first: all that ended by `beforeMs`, and more until `bytes` are freed;
   * never the newest. Returns the number of rows and bytes deleted.
   */
  trim(turn: Turn, bytes: number, beforeMs: number, limit: number): { rows: number; bytes: number } {
    this.#changed(turn);
    const heads = this.#oldest(limit + PARTS_PER_STRETCH);
    const newest = this.#sql.one<{ id: number }>(`SELECT id FROM ${this.#table} ORDER BY id DESC LIMIT 1`);
    let [rows, freed] = [0, 0];
    for (const [startMs, parts] of Map.groupBy(heads, ({ id }) => startOf(id))) {
      const isEnough = freed >= bytes && (parts[0]?.end_ms ?? 0) > beforeMs;
      if (isEnough || rows >= limit || startMs === startOf(newest?.id ?? 0)) break;
      turn.write(`DELETE FROM ${this.#table} WHERE id < ?`, idOf(startMs) + PARTS_PER_STRETCH);
      rows += parts.length;
      freed += parts.reduce((sum, { size }) => sum + size, 0);
    }
    return { rows, bytes: freed };
  }

  #changed(turn: Turn): void {
    const forget = () => {
      this.#oldestEndMs = undefined;
    };
    turn.undo(forget);
    forget();
  }

  #oldest(limit: number): Pick<PartRow, 'id' | 'end_ms' | 'size'>[] {
    return this.#sql.all(`SELECT id, end_ms, size FROM ${this.#table} ORDER BY id LIMIT ?`, limit);
  }
}

/** The number of the next part of a stretch. */
export function nextNumber(parts: readonly PartHead[]): number {
  return Math.max(-1, ...parts.map(({ id }) => id % PARTS_PER_STRETCH)) + 1;
}

function idOf(startMs: number): number {
  return Math.floor(startMs / MINUTE) * PARTS_PER_STRETCH;
}

function startOf(id: number): number {
  return Math.floor(id / PARTS_PER_STRETCH) * MINUTE;
}

function partOf(row: PartRow): StoredPart {
  return { ...headOf(row), data: new Uint8Array(row.data) };
}

function headOf(row: Omit<PartRow, 'data'>): PartHead {
  return {
    id: row.id,
    startMs: startOf(row.id),
    endMs: row.end_ms,
    size: row.size,
    fromMetric: row.from_metric,
    untilMetric: row.until_metric,
    count: row.count,
    directory: JSON.parse(row.directory) as Directory,
  };
}
