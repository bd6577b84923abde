/** The blocks of the telemetry journal: messages as they came, with their nonces. */
import { EMPTY, type Extent } from '../../object/extent.ts';
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import { REPLAY_HORIZON_MS } from '../device/replay.ts';
import type { Kept } from '../retention.ts';

export type JournalBlockRow = {
  id: number;
  opened_at_ms: number;
  last_at_ms: number;
  /** What all blocks before it held: the ends of the journal tell its size. */
  starts_at: number;
  size: number;
  event_at_ms: number;
  alerts: string;
  data: string;
};

/** What rides in the row of the open block. */
export interface Riders {
  eventAtMs: number;
  alerts: string;
}

/** Heads of blocks that are read at once. */
const HEADS = 8;

type NewBlock = Pick<JournalBlockRow, 'id' | 'starts_at' | 'data'>;

export type BlockHeadRow = Omit<JournalBlockRow, 'data'>;

export class JournalRows implements Kept {
  readonly #sql: Sql;
  readonly #packedBlock: () => number;
  #extent: Extent | undefined;

  /** `packedBlock`: blocks before it are in the store, too. */
  constructor(sql: Sql, packedBlock: () => number) {
    this.#sql = sql;
    this.#packedBlock = packedBlock;
  }

  /** The block that is being filled. */
  open(): BlockHeadRow | undefined {
    return this.#sql.one(
      `SELECT id, opened_at_ms, last_at_ms, starts_at, size, event_at_ms, alerts FROM journal_block
       ORDER BY id DESC LIMIT 1`,
    );
  }

  /** The data of that block and those behind it, oldest first, one at a time. */
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

  /** When the first of them was opened. */
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
   * The data of blocks written to since then, oldest first, one at a time, whatever the history. Where they hold more
   * than so many characters, only the newest of them.
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

  /** A block that is packed and old gives its row to the new one. */
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
   * The open block stays, and what holds nonces that still count: a replay is no way in for want of room. What is not
   * packed goes only for want of room.
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
    // A journal of one block has nothing to lose: the open block stays.
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
