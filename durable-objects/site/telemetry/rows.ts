/** The blocks of the telemetry journal: telemetry and status messages with their nonces. */
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import { EMPTY, type Extent, type Trimmable } from '../retention.ts';
import { REPLAY_HORIZON_MS } from './replay.ts';

/** Values that are stored in the row of the open block, because this row is written with each message anyway. */
export type Riders = {
  /** When the last telemetry event was sent to partners. */
  eventAtMs: number;
  /** The state of the alert rules, as JSON. */
  alerts: string;
};

/** A block without its data. */
export type BlockHead = Riders & {
  id: number;
  openedAtMs: number;
  lastAtMs: number;
  /**
   * Total size of all earlier blocks, including deleted ones. The first and last block give the journal's size
   * without counting.
   */
  startsAt: number;
  size: number;
};

const HEAD =
  'id, opened_at_ms AS openedAtMs, last_at_ms AS lastAtMs, starts_at AS startsAt, size, event_at_ms AS eventAtMs, alerts';
/** Number of block heads read per query. */
const HEADS = 8;

export class JournalRows implements Trimmable {
  readonly #sql: Sql;
  readonly #packedBlock: () => number;
  #extent: Extent | undefined;

  /** `packedBlock`: returns the first block that is not packed; all earlier blocks are also in the store. */
  constructor(sql: Sql, packedBlock: () => number) {
    this.#sql = sql;
    this.#packedBlock = packedBlock;
  }

  /** The block that is being filled: the newest. */
  open(): BlockHead | undefined {
    return this.#sql.one(`SELECT ${HEAD} FROM journal_block ORDER BY id DESC LIMIT 1`);
  }

  /** Yields the data of this block and all later ones, oldest first. */
  *from(id: number): Generator<string> {
    const blocks = this.#sql.each<{ id: number; data: string }>(
      'SELECT id, data FROM journal_block WHERE id > ? ORDER BY id LIMIT ?',
      { key: 'id', from: id - 1, rows: 16 },
    );
    for (const { data } of blocks) yield data;
  }

  /** The same blocks, without their data. */
  headsFrom(id: number): Iterable<BlockHead> {
    const heads = `SELECT ${HEAD} FROM journal_block WHERE id > ? ORDER BY id LIMIT ?` as const;
    return this.#sql.each<BlockHead>(heads, { key: 'id', from: id - 1, rows: HEADS });
  }

  extent(): Extent {
    this.#extent ??= this.#readExtent();
    return this.#extent;
  }

  /**
   * Yields the data of the blocks that got messages since `sinceMs`, oldest first; of more than `maxChars`
   * characters only the newest blocks that fit. The cost does not depend on the length of the history.
   */
  *since(sinceMs: number, maxChars = Number.POSITIVE_INFINITY): Generator<string> {
    const heads = this.#sql.each<Pick<BlockHead, 'id' | 'lastAtMs' | 'size'>>(
      'SELECT id, last_at_ms AS lastAtMs, size FROM journal_block WHERE id < ? ORDER BY id DESC LIMIT ?',
      { key: 'id', from: Number.MAX_SAFE_INTEGER, rows: HEADS },
    );
    let [first, chars]: [number | undefined, number] = [undefined, 0];
    for (const { id, lastAtMs, size } of heads) {
      chars += size;
      if (lastAtMs < sinceMs || (chars > maxChars && first !== undefined)) break;
      first = id;
    }
    if (first !== undefined) yield* this.from(first);
  }

  /** Inserts a block. It overwrites the row of the oldest block if that block is packed and older than `hotMs`. */
  insert(turn: Turn, block: BlockHead, data: string): void {
    this.#grow(turn, block.size);
    const { id, openedAtMs, lastAtMs, startsAt, size, eventAtMs, alerts } = block;
    const values = [id, openedAtMs, lastAtMs, startsAt, size, eventAtMs, alerts, boundedRow(data)];
    const oldest = this.#oldest();
    const isOld = oldest && oldest.lastAtMs < turn.now - SITE_BOUNDS.hotMs;
    if (oldest && isOld && oldest.id < this.#packedBlock()) {
      turn.write(
        `UPDATE journal_block SET id = ?, opened_at_ms = ?, last_at_ms = ?, starts_at = ?, size = ?, event_at_ms = ?,
           alerts = ?, data = ? WHERE id = ?`,
        ...values,
        oldest.id,
      );
      this.#extent = undefined;
      return;
    }
    turn.write(
      `INSERT INTO journal_block (id, opened_at_ms, last_at_ms, starts_at, size, event_at_ms, alerts, data)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...values,
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
    const oldestMs = oldest.startsAt === newest.startsAt ? undefined : oldest.lastAtMs;
    return { startsAt: oldest.startsAt, endsAt: newest.startsAt + newest.size, oldestMs };
  }

  #oldest(): Pick<BlockHead, 'id' | 'startsAt' | 'lastAtMs'> | undefined {
    return this.#sql.one(`SELECT ${HEAD} FROM journal_block ORDER BY id LIMIT 1`);
  }
}
