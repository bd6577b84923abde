/** Key-value store of an object: one row of JSON per name. */
import { boundedRow } from './row-size.ts';
import type { Sql } from './sql.ts';
import type { Turn } from './turn.ts';

export class KeyValues<Name extends string> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get<Value>(name: Name): Value | undefined {
    const row = this.#sql.one<{ value: string }>('SELECT value FROM fact WHERE name = ?', name);
    return row && (JSON.parse(row.value) as Value);
  }

  set(turn: Turn, name: Name, value: unknown): void {
    turn.replace('fact', { name, value: boundedRow(JSON.stringify(value)) });
  }
}
