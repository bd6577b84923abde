/** The SQL statements of an object while a test looks: what a wake reads, and what it leaves alone. */
import { runInDurableObject } from 'cloudflare:test';
import { vi } from 'vitest';
import { siteOf } from './world.ts';

/** Notes every statement from here on, of all objects, until `vi.restoreAllMocks()`. */
export async function noteStatements(siteId: string): Promise<string[]> {
  const statements: string[] = [];
  await runInDurableObject(siteOf(siteId), (_site, { storage }) => {
    const prototype = Object.getPrototypeOf(storage.sql) as SqlStorage;
    const { exec } = prototype;
    vi.spyOn(prototype, 'exec').mockImplementation(function (this: SqlStorage, query, ...bindings) {
      statements.push(query);
      return exec.call(this, query, ...bindings) as never;
    });
  });
  return statements;
}

/**
 * Counts the rows that an object's statements read from here on, until `vi.restoreAllMocks()`: they are the bill. The
 * answer is how many since it was last asked.
 */
export async function countRowsRead(siteId: string): Promise<() => Promise<number>> {
  const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
  await runInDurableObject(siteOf(siteId), (_site, { storage }) => {
    const prototype = Object.getPrototypeOf(storage.sql) as SqlStorage;
    const { exec } = prototype;
    vi.spyOn(prototype, 'exec').mockImplementation(function (this: SqlStorage, query, ...bindings) {
      const cursor = exec.call(this, query, ...bindings);
      cursors.push(cursor);
      return cursor as never;
    });
  });
  return async () =>
    await runInDurableObject(siteOf(siteId), () =>
      cursors.splice(0).reduce((sum, { rowsRead }) => sum + rowsRead, 0),
    );
}
