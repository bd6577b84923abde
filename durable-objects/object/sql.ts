/**
 * An object's own SQLite, for reading. Writing is the turn's alone: a statement that is no SELECT does not compile
 * here, and one that is does not compile there.
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

  /** The first row; undefined when there is none. */
  one<Row extends SqlRow>(query: Read, ...bindings: SqlStorageValue[]): Row | undefined {
    return this.all<Row>(query, ...bindings)[0];
  }

  /**
   * Row by row in the order of a key, for who may stop before the end: some at a time, because a statement that is left
   * open keeps the write-ahead log from being reset. The query's last two bindings are the key to go on behind, and
   * how many rows to read.
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

/** The key of a walk through rows, where it begins (without that one), and how many are in memory at once. */
export interface Walk<Row> {
  key: keyof Row & string;
  from: number;
  rows: number;
}
