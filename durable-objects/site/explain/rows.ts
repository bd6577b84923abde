/**
 * The rows of the plan history. A row's sequence is its time in milliseconds times a thousand, or the next free number, so
 * a moment is found by the primary key alone [C-13.3].
 */
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { EMPTY, type Extent, type Trimmable } from '../retention.ts';
import type { PlanFacts } from './facts.ts';

const SEQUENCES_PER_MS = 1_000;
/** Bytes counted per row in addition to its text. */
const ROW_BYTES = 60;

type Row = { sequence: number; at_ms: number; facts: string; starts_at: number; size: number };

export interface Recorded {
  sequence: number;
  atMs: number;
  facts: PlanFacts;
}

export class PlanChangeRows implements Trimmable {
  readonly #sql: Sql;
  #extent: Extent | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  insert(turn: Turn, facts: PlanFacts): void {
    const text = JSON.stringify(facts);
    const extent = this.extent();
    const last = this.newest()?.sequence ?? 0;
    const size = ROW_BYTES + text.length;
    turn.undo(() => {
      this.#extent = extent;
    });
    turn.insert('plan_change', {
      ...{ sequence: Math.max(last + 1, turn.now * SEQUENCES_PER_MS), at_ms: turn.now, facts: text },
      ...{ starts_at: extent.endsAt, size },
    });
    this.#extent = { ...extent, endsAt: extent.endsAt + size };
  }

  newest(): Recorded | undefined {
    return this.#one('SELECT * FROM plan_change ORDER BY sequence DESC LIMIT 1');
  }

  /** The last change at or before a moment. */
  at(atMs: number): Recorded | undefined {
    const behind = (atMs + 1) * SEQUENCES_PER_MS;
    return this.#one('SELECT * FROM plan_change WHERE sequence < ? ORDER BY sequence DESC LIMIT 1', behind);
  }

  /** The changes in [from, to), oldest first. */
  between(fromMs: number, toMs: number, limit: number): Recorded[] {
    return this.#sql
      .all<Row>(
        'SELECT * FROM plan_change WHERE sequence >= ? AND sequence < ? ORDER BY sequence LIMIT ?',
        fromMs * SEQUENCES_PER_MS,
        toMs * SEQUENCES_PER_MS,
        limit,
      )
      .map(recorded);
  }

  extent(): Extent {
    this.#extent ??= this.#readExtent();
    return this.#extent;
  }

  trim(turn: Turn, place: number, _beforeMs: number, limit: number): number {
    turn.undo(() => {
      this.#extent = undefined;
    });
    this.#extent = undefined;
    return turn.write(
      `DELETE FROM plan_change WHERE sequence IN (SELECT sequence FROM plan_change ORDER BY sequence LIMIT ?)
         AND starts_at < ? AND sequence < (SELECT max(sequence) FROM plan_change)`,
      limit,
      place,
    );
  }

  #one(query: `SELECT ${string}`, ...bindings: number[]): Recorded | undefined {
    const row = this.#sql.one<Row>(query, ...bindings);
    return row && recorded(row);
  }

  #readExtent(): Extent {
    const end = (order: 'ASC' | 'DESC') =>
      this.#sql.one<{ starts_at: number; size: number }>(
        `SELECT starts_at, size FROM plan_change ORDER BY sequence ${order} LIMIT 1`,
      );
    const [oldest, newest] = [end('ASC'), end('DESC')];
    if (!oldest || !newest) return EMPTY;
    return { startsAt: oldest.starts_at, endsAt: newest.starts_at + newest.size, oldestMs: undefined };
  }
}

function recorded({ sequence, at_ms: atMs, facts }: Row): Recorded {
  return { sequence, atMs, facts: JSON.parse(facts) as PlanFacts };
}
