/** The blocks of the telemetry journal: messages as they came, with their nonces. */
import { boundedRow } from '../../object/row-size.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type JournalBlockRow = {
  id: number;
  opened_at_ms: number;
  last_at_ms: number;
  size: number;
  event_at_ms: number;
  data: string;
};

export class JournalRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The block that is being filled. */
  open(): Omit<JournalBlockRow, 'data'> | undefined {
    return this.#sql.one(
      'SELECT id, opened_at_ms, last_at_ms, size, event_at_ms FROM journal_block ORDER BY id DESC LIMIT 1',
    );
  }

  /** Blocks written to since then, oldest first; walks back from the newest and stops, whatever the history. */
  since(sinceMs: number): JournalBlockRow[] {
    const blocks: JournalBlockRow[] = [];
    for (const block of this.#sql.each<JournalBlockRow>('SELECT * FROM journal_block ORDER BY id DESC')) {
      if (block.last_at_ms < sinceMs) break;
      blocks.push(block);
    }
    return blocks.reverse();
  }

  insert(turn: Turn, block: Pick<JournalBlockRow, 'id' | 'event_at_ms' | 'data'>): void {
    turn.write(
      'INSERT INTO journal_block (id, opened_at_ms, last_at_ms, size, event_at_ms, data) VALUES (?, ?, ?, ?, ?, ?)',
      block.id,
      turn.now,
      turn.now,
      block.data.length,
      block.event_at_ms,
      block.data,
    );
  }

  append(turn: Turn, id: number, lines: string, eventAtMs: number): void {
    turn.write(
      'UPDATE journal_block SET data = data || ?, size = size + ?, last_at_ms = ?, event_at_ms = ? WHERE id = ?',
      boundedRow(lines),
      lines.length,
      turn.now,
      eventAtMs,
      id,
    );
  }

  /** Drops the oldest blocks while they are older than that, a few at a time. */
  deleteBefore(turn: Turn, lastAtMs: number): void {
    turn.write(
      'DELETE FROM journal_block WHERE id IN (SELECT id FROM journal_block ORDER BY id LIMIT 8) AND last_at_ms < ?',
      lastAtMs,
    );
  }
}
