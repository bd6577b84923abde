/** Runs any number of statements in one D1 transaction. */
import type { BatchItem } from 'drizzle-orm/batch';
import type { DrizzleD1Database } from 'drizzle-orm/d1';

export type Statement = BatchItem<'sqlite'>;

/** Runs all statements or none. Returns their results in order. */
export async function runBatch(db: DrizzleD1Database, statements: readonly Statement[]): Promise<unknown[]> {
  const [first, ...rest] = statements;
  return first ? await db.batch([first, ...rest]) : [];
}
