/**
 * Read access to an object's SQLite. Only a turn can write: this class compiles only with SELECT statements,
 * `Turn` only with the others.
 */
export type SqlRow = Record<string, SqlStorageValue>;

type Read = `SELECT ${string}`;

export class Sql {
  readonly #sql: SqlStorage;

  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  all<Row extends SqlRow>(query: Read, ...bindings: SqlStorageValue[]): Row[] {
    return this.#sql.exec<Row>(query, ...bindings).toArray();
  }

  /** The first row, or undefined. */
  one<Row extends SqlRow>(query: Read, ...bindings: SqlStorageValue[]): Row | undefined {
    return this.all<Row>(query, ...bindings)[0];
  }

  /**
   * Yields rows in the order of a key, for callers that may stop early. Rows are read in pages, because an
   * open statement prevents a reset of the write-ahead log. The last two bindings of the query are the key of
   * the last row read and the page size.
   */
  *each<Row extends SqlRow>(query: Read, walk: Walk<Row>, ...bindings: SqlStorageValue[]): Generator<Row> {
    for (let { from } = walk; ; ) {
      const rows = this.all<Row>(query, ...bindings, from, walk.rows);
      yield* rows;
      const last = rows.at(-1);
      if (!last || rows.length < walk.rows) return;
      from = last[walk.key] as number;
    }
  }
}

/** The key column, the key to start after (exclusive), and the number of rows per page. */
export interface Walk<Row> {
  key: keyof Row & string;
  from: number;
  rows: number;
}
