/** The blocks of the telemetry journal: received messages with their nonces. */
import { EMPTY, type Extent } from '../../object/extent.ts';
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import type { Trimmable } from '../retention.ts';
import { REPLAY_HORIZON_MS } from './replay.ts';

export type JournalBlockRow = {
  id: number;
  opened_at_ms: number;
  last_at_ms: number;
  /** Total size of all earlier blocks. The first and last block give the journal's size without counting. */
  starts_at: number;
  size: number;
  event_at_ms: number;
  alerts: string;
  data: string;
};

/** Values stored in the row of the open block because they then cost no extra write. */
export interface Riders {
  eventAtMs: number;
  alerts: string;
}

/** Number of block heads read per query. */
const HEADS = 8;

type NewBlock = Pick<JournalBlockRow, 'id' | 'starts_at' | 'data'>;

export type BlockHeadRow = Omit<JournalBlockRow, 'data'>;

export class JournalRows implements Trimmable {
  readonly #sql: Sql;
  readonly #packedBlock: () => number;
  #extent: Extent | undefined;

  /** `packedBlock`: all earlier blocks are also in the store. */
  constructor(sql: Sql, packedBlock: () => number) {
    this.#sql = sql;
    this.#packedBlock = packedBlock;
  }

  /** The block that is being filled: the newest. */
  open(): BlockHeadRow | undefined {
    return this.#sql.one(
      `SELECT id, opened_at_ms, last_at_ms, starts_at, size, event_at_ms, alerts FROM journal_block
       ORDER BY id DESC LIMIT 1`,
    );
  }

  /** Yields the data of this block and all later ones, oldest first. */
  *from(id: number): Generator<string> {
    const blocks = this.#sql.each<Pick<JournalBlockRow, 'id' | 'data'>>(
      'SELECT id, data FROM journal_block WHERE id > ? ORDER BY id LIMIT ?',
      { key: 'id', from: id - 1, rows: 16 },
    );
    for (const { data } of blocks) yield data;
  }

  /** The same blocks, without their data. */
  headsFrom(id: number): Iterable<BlockHeadRow> {
    return this.#sql.each<BlockHeadRow>(
      `SELECT id, opened_at_ms, last_at_ms, starts_at, size, event_at_ms, alerts FROM journal_block
       WHERE id > ? ORDER BY id LIMIT ?`,
      { key: 'id', from: id - 1, rows: HEADS },
    );
  }

  /** When the first of these blocks was opened. */
  openedFrom(id: number): number | undefined {
    const row = this.#sql.one<{ at: number }>(
      'SELECT opened_at_ms AS at FROM journal_block WHERE id >= ? ORDER BY id LIMIT 1',
      id,
    );
    return row?.at;
  }

  extent(): Extent {
    this.#extent ??= this.#readExtent();
    return this.#extent;
  }

  /**
   * Yields the data of the blocks written to since `sinceMs`, oldest first. Beyond `maxChars` characters,
   * only the newest blocks that fit. The cost does not depend on the length of the history.
   */
  *since(sinceMs: number, maxChars = Number.POSITIVE_INFINITY): Generator<string> {
    const heads = this.#sql.each<Pick<JournalBlockRow, 'id' | 'last_at_ms' | 'size'>>(
      'SELECT id, last_at_ms, size FROM journal_block WHERE id < ? ORDER BY id DESC LIMIT ?',
      { key: 'id', from: Number.MAX_SAFE_INTEGER, rows: HEADS },
    );
    let [first, chars]: [number | undefined, number] = [undefined, 0];
    for (const { id, last_at_ms: lastAtMs, size } of heads) {
      chars += size;
      if (lastAtMs < sinceMs || (chars > maxChars && first !== undefined)) break;
      first = id;
    }
    if (first !== undefined) yield* this.from(first);
  }

  /** Inserts a block. It overwrites the row of the oldest block if that is packed and old. */
  insert(turn: Turn, block: NewBlock, riders: Riders): void {
    this.#grow(turn, block.data.length);
    const oldest = this.#oldest();
    const isOld = oldest && oldest.last_at_ms < turn.now - SITE_BOUNDS.hotMs;
    if (oldest && isOld && oldest.id < this.#packedBlock()) {
      turn.write(
        `UPDATE journal_block SET id = ?, opened_at_ms = ?, last_at_ms = ?, starts_at = ?, size = ?, event_at_ms = ?,
           alerts = ?, data = ? WHERE id = ?`,
        ...valuesOf(block, riders, turn.now),
        oldest.id,
      );
      this.#extent = undefined;
      return;
    }
    turn.write(
      `INSERT INTO journal_block (id, opened_at_ms, last_at_ms, starts_at, size, event_at_ms, alerts, data)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...valuesOf(block, riders, turn.now),
    );
  }

  append(turn: Turn, id: number, lines: string, { eventAtMs, alerts }: Riders): void {
    this.#grow(turn, lines.length);
    turn.write(
      `UPDATE journal_block SET data = data || ?, size = size + ?, last_at_ms = ?, event_at_ms = ?, alerts = ?
       WHERE id = ?`,
      boundedRow(lines),
      lines.length,
      turn.now,
      eventAtMs,
      alerts,
      id,
    );
  }

  noteAlerts(turn: Turn, id: number, alerts: string): void {
    turn.write('UPDATE journal_block SET alerts = ? WHERE id = ?', alerts, id);
  }

  noteEvent(turn: Turn, id: number, eventAtMs: number): void {
    turn.write('UPDATE journal_block SET event_at_ms = ? WHERE id = ?', eventAtMs, id);
  }

  /**
   * Keeps the open block, and blocks with nonces that are still valid: a full journal must not allow replays.
   * Unpacked blocks are deleted only when the budget is exceeded, not by age.
   */
  trim(turn: Turn, place: number, beforeMs: number, limit: number): number {
    this.#extent = undefined;
    return turn.write(
      `DELETE FROM journal_block WHERE id IN (SELECT id FROM journal_block ORDER BY id LIMIT ?)
         AND id < (SELECT max(id) FROM journal_block)
         AND ((starts_at < ? AND last_at_ms < ?) OR (last_at_ms <= ? AND id < ?))`,
      limit,
      place,
      turn.now - REPLAY_HORIZON_MS,
      beforeMs,
      this.#packedBlock(),
    );
  }

  #grow(turn: Turn, chars: number): void {
    const extent = this.extent();
    turn.undo(() => {
      this.#extent = undefined;
    });
    this.#extent = { ...extent, endsAt: extent.endsAt + chars, oldestMs: extent.oldestMs ?? turn.now };
  }

  #readExtent(): Extent {
    const newest = this.open();
    const oldest = this.#oldest();
    if (!oldest || !newest) return EMPTY;
    // A journal of one block has nothing to delete: the open block is kept.
    const oldestMs = oldest.starts_at === newest.starts_at ? undefined : oldest.last_at_ms;
    return { startsAt: oldest.starts_at, endsAt: newest.starts_at + newest.size, oldestMs };
  }

  #oldest(): { id: number; starts_at: number; last_at_ms: number } | undefined {
    return this.#sql.one('SELECT id, starts_at, last_at_ms FROM journal_block ORDER BY id LIMIT 1');
  }
}

function valuesOf({ id, starts_at: startsAt, data }: NewBlock, { eventAtMs, alerts }: Riders, now: number) {
  return [id, now, now, startsAt, data.length, eventAtMs, alerts, boundedRow(data)];
}
