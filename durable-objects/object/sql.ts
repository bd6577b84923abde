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

  /** Row by row, for who may stop before the end. */
  each<Row extends SqlRow>(query: Read, ...bindings: SqlStorageValue[]): Iterable<Row> {
    return this.#sql.exec<Row>(query, ...bindings);
  }
}
