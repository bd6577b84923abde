/** Statements of one transaction, however many there are. */
import type { BatchItem } from 'drizzle-orm/batch';
import type { DrizzleD1Database } from 'drizzle-orm/d1';

export type Statement = BatchItem<'sqlite'>;

/** All of them or none; the results in their order. */
export async function runBatch(db: DrizzleD1Database, statements: readonly Statement[]): Promise<unknown[]> {
  const [first, ...rest] = statements;
  return first ? await db.batch([first, ...rest]) : [];
}
