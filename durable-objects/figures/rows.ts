/** What objects told last, a row each. */
import { boundedRow } from '../object/row-size.ts';
import type { Sql } from '../object/sql.ts';
import type { Turn } from '../object/turn.ts';
import type { Entry } from './ledger.ts';
import type { KeyQueues } from './report.ts';

export type ReporterRow = {
  object: string;
  class: Entry['class'];
  counts: string;
  queues: string | null;
  seen_ms: number;
};

export class ReporterRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): [object: string, entry: Entry][] {
    return this.#sql
      .all<ReporterRow>('SELECT object, class, counts, queues, seen_ms FROM reporter')
      .map(({ object, class: of, counts, queues, seen_ms: seenMs }) => [
        object,
        {
          class: of,
          counts: JSON.parse(counts) as Record<string, number>,
          queues: queues === null ? undefined : (JSON.parse(queues) as KeyQueues),
          seenMs,
          storedSeenMs: seenMs,
          atMs: 0,
        },
      ]);
  }

  set(turn: Turn, object: string, { class: of, counts, queues, seenMs }: Entry): void {
    turn.write(
      'INSERT OR REPLACE INTO reporter (object, class, counts, queues, seen_ms) VALUES (?, ?, ?, ?, ?)',
      object,
      of,
      boundedRow(JSON.stringify(counts)),
      queues ? boundedRow(JSON.stringify(queues)) : null,
      seenMs,
    );
  }

  delete(turn: Turn, object: string): void {
    turn.write('DELETE FROM reporter WHERE object = ?', object);
  }
}
