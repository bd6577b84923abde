/**
 * Numbered migrations of an object's own SQLite: entry n brings version n to n + 1, each once, all in one
 * transaction, at construction. An entry is never changed after it shipped; an error keeps the object from starting.
 */
export function migrate(storage: DurableObjectStorage, migrations: readonly string[]): void {
  storage.transactionSync(() => {
    storage.sql.exec(
      'CREATE TABLE IF NOT EXISTS schema_version (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL)',
    );
    const row = storage.sql.exec<{ version: number }>('SELECT version FROM schema_version').toArray()[0];
    const version = row?.version ?? 0;
    if (version === migrations.length) return;
    if (version > migrations.length) throw new Error(`schema version ${version} is newer than this code`);
    for (const migration of migrations.slice(version)) storage.sql.exec(migration);
    storage.sql.exec('INSERT OR REPLACE INTO schema_version (id, version) VALUES (1, ?)', migrations.length);
  });
}
