/** Conditional inserts into D1: each names its columns, so a new column of a table changes no other statement. */
import { getTableColumns, type InferInsertModel, is, SQL, sql } from 'drizzle-orm';
import type { DrizzleD1Database } from 'drizzle-orm/d1';
import type { SQLiteTable } from 'drizzle-orm/sqlite-core';

/** The condition that the previous statement of the batch changed a row. */
export const IF_CHANGED = sql`changes() > 0`;

/**
 * Inserts a row if the condition holds at the moment of the insert: a count in it cannot be exceeded by requests at the
 * same time. A column without a value gets its default.
 */
export function insertIf<Table extends SQLiteTable>(
  db: DrizzleD1Database,
  table: Table,
  values: { [Column in keyof InferInsertModel<Table>]: InferInsertModel<Table>[Column] | SQL },
  condition: SQL,
) {
  const given: Readonly<Record<string, unknown>> = values;
  // Drizzle names the columns in the order of the schema.
  const selected = Object.entries(getTableColumns(table)).map(([name, column]) => {
    const value = given[name] === undefined ? column.default : given[name];
    return is(value, SQL) ? value : sql.param(value ?? null, column);
  });
  return db.insert(table).select(sql`SELECT ${sql.join(selected, sql`, `)} WHERE ${condition}`);
}
