/** The ledger in storage: one row with all counts, and one row per object with its last report. */
import { boundedRow } from '../object/row-size.ts';
import type { Sql } from '../object/sql.ts';
import type { Turn } from '../object/turn.ts';
import type { Counts } from './families.ts';
import { type Entry, Ledger, type Unstored } from './ledger.ts';
import type { KeyQueues } from './report.ts';

export type ReporterRow = {
  object: string;
  class: Entry['class'];
  queues: string | null;
  seen_ms: number;
};

export class LedgerRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  read(): Ledger {
    const [total] = this.#sql.all<{ counts: string }>('SELECT counts FROM total');
    const entries = this.#sql
      .all<ReporterRow>('SELECT object, class, queues, seen_ms FROM reporter')
      .map(({ object, class: of, queues, seen_ms: seenMs }): [string, Entry] => [
        object,
        {
          class: of,
          queues: queues === null ? undefined : (JSON.parse(queues) as KeyQueues),
          seenMs,
          storedSeenMs: seenMs,
          atMs: 0,
        },
      ]);
    return new Ledger(JSON.parse(total?.counts ?? '{}') as Counts, entries);
  }

  write(turn: Turn, { totals, entries }: Unstored): void {
    if (totals) {
      turn.write(
        'INSERT OR REPLACE INTO total (id, counts) VALUES (1, ?)',
        boundedRow(JSON.stringify(totals)),
      );
    }
    for (const [object, entry] of entries) {
      if (entry) this.#set(turn, object, entry);
      else turn.write('DELETE FROM reporter WHERE object = ?', object);
    }
  }

  #set(turn: Turn, object: string, { class: of, queues, seenMs }: Entry): void {
    turn.write(
      'INSERT OR REPLACE INTO reporter (object, class, queues, seen_ms) VALUES (?, ?, ?, ?)',
      object,
      of,
      queues ? boundedRow(JSON.stringify(queues)) : null,
      seenMs,
    );
  }
}
