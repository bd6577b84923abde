/**
 * Numbered migrations of an object's own SQLite: entry n brings version n to n + 1, each once, all in one
 * transaction, at construction. An entry is never changed after it shipped; an error keeps the object from starting.
 *
 * A deploy may be rolled back: each entry says from which version on code still runs with it in place, and an object
 * remembers the highest of these. Older code then runs on as long as it knows that many entries.
 */
export interface Migration {
  sql: string;
  /** The number of entries that code must know to run on an object that has this one. */
  lowest: number;
}

type Version = { version: number; lowest?: number };

export function migrate(storage: DurableObjectStorage, migrations: readonly Migration[]): void {
  const { sql } = storage;
  storage.transactionSync(() => {
    sql.exec(
      `CREATE TABLE IF NOT EXISTS schema_version
         (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, lowest INTEGER NOT NULL DEFAULT 0)`,
    );
    const row = sql.exec<Version>('SELECT * FROM schema_version').toArray()[0];
    const { version = 0, lowest = 0 } = row ?? {};
    if (row && row.lowest === undefined) {
      sql.exec('ALTER TABLE schema_version ADD COLUMN lowest INTEGER NOT NULL DEFAULT 0');
    }
    if (lowest > migrations.length) {
      throw new Error(
        `schema version ${version} needs code that knows ${lowest} migrations, not ${migrations.length}`,
      );
    }
    if (version >= migrations.length) return;
    for (const migration of migrations.slice(version)) sql.exec(migration.sql);
    sql.exec(
      'INSERT OR REPLACE INTO schema_version (id, version, lowest) VALUES (1, ?, ?)',
      migrations.length,
      Math.max(lowest, ...migrations.map((migration) => migration.lowest)),
    );
  });
}
