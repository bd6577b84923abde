/**
 * Numbered migrations of an object's SQLite: entry n migrates version n to n + 1. All missing entries run in
 * one transaction when the object is constructed; an error keeps the object from starting. Never change a
 * shipped entry.
 *
 * A deploy may be rolled back to older code. `lowest` of each entry is the number of entries that code must
 * have to run with this entry, and the object stores the highest `lowest` so far. Older code still runs if it
 * has at least that many entries.
 */
export interface Migration {
  sql: string;
  /** The number of entries that code must have to run on an object with this entry. */
  lowest: number;
}

type Version = { version: number; lowest: number };

export function migrate(storage: DurableObjectStorage, migrations: readonly Migration[]): void {
  const { sql } = storage;
  storage.transactionSync(() => {
    sql.exec(
      `CREATE TABLE IF NOT EXISTS schema_version
         (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, lowest INTEGER NOT NULL)`,
    );
    const row = sql.exec<Version>('SELECT * FROM schema_version').toArray()[0];
    const { version = 0, lowest = 0 } = row ?? {};
    if (lowest > migrations.length) {
      throw new Error(
        `stored schema version ${version} needs code with ${lowest} migrations, this code has ${migrations.length}: deploy newer code`,
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
