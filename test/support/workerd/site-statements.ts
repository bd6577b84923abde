/** Records the SQL statements of objects, to check what a wake reads. */
import { runInDurableObject } from 'cloudflare:test';
import { vi } from 'vitest';
import { siteOf } from './world.ts';

/** Records every statement of all objects from now on, until `vi.restoreAllMocks()`. */
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
 * Counts the rows that the statements of objects read, until `vi.restoreAllMocks()`: Cloudflare bills them. Each call
 * of the returned function returns the count since the previous call.
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
