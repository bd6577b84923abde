/** What all tables of D1 share: transactions, pages of rows, and the constraint that a failed write violated. */
import { asc, count, desc, type SQL, sql } from 'drizzle-orm';
import type { BatchItem } from 'drizzle-orm/batch';
import type { DrizzleD1Database } from 'drizzle-orm/d1';
import type { SQLiteColumn, SQLiteTable } from 'drizzle-orm/sqlite-core';
import { causesOf } from '../durable-objects/object/reason.ts';
import { formatInstant } from '../protocol/ids.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { Cursor, FoundPage, PageRequest } from '../protocol/page.ts';

export type Statement = BatchItem<'sqlite'>;
type Query<Row> = Statement & PromiseLike<Row[]>;
type Count = Query<{ total: number }>;

/** A row with its instants as text: `createdAt` instead of `createdAtMs`. */
type WithInstants<Row> = {
  [Column in keyof Row as Column extends `${infer Name}AtMs`
    ? `${Name}At`
    : Column]: Column extends `${string}AtMs`
    ? string | (null extends Row[Column] ? null : never)
    : Row[Column];
};

/** Formats each column whose name ends in `AtMs`, epoch milliseconds, as an instant of an answer. */
export function withInstants<Row extends object>(row: Row): WithInstants<Row> {
  const shown = Object.entries(row).map(([name, value]) =>
    name.endsWith('AtMs') ? [name.slice(0, -2), value === null ? null : formatInstant(value)] : [name, value],
  );
  return Object.fromEntries(shown);
}

/** Runs all statements or none. Returns their results in order. */
export async function runBatch(db: DrizzleD1Database, statements: readonly Statement[]): Promise<unknown[]> {
  const [first, ...rest] = statements;
  return first ? await db.batch([first, ...rest]) : [];
}

/** A query that each request of a kind makes: its text is made once for a database. */
export function preparedOnce<Query>(
  prepare: (database: D1Database) => Query,
): (database: D1Database) => Query {
  const known = new WeakMap<D1Database, Query>();
  return (database) => {
    const query = known.get(database) ?? prepare(database);
    known.set(database, query);
    return query;
  };
}

/** Condition: fewer than `most` rows of the table fit. */
export function areFewer(table: SQLiteTable, isMeant: SQL | undefined, most: number | SQL): SQL {
  return sql`(SELECT count(*) FROM ${table} WHERE ${isMeant ?? sql`TRUE`}) < ${most}`;
}

/** Whether a statement with `returning` changed no row. */
export function isEmpty(rows: unknown): boolean {
  return (rows as unknown[]).length === 0;
}

interface OrderedRows<Row> {
  limit(most: number): { offset(skipped: number): Query<Row> };
}

/** Reads the requested page of `rows`, and their number from `counted`, in one round trip. */
export async function readPage<Row>(
  db: DrizzleD1Database,
  request: PageRequest,
  rows: OrderedRows<Row>,
  counted: Count,
): Promise<FoundPage<Row>> {
  const [found, totals] = await db.batch([pageOf(rows, request), counted]);
  return { rows: found as Row[], total: (totals as { total: number }[])[0]?.total ?? 0 };
}

/** As `readPage`, for rows of two tables: in a batch their equally named columns would collide. */
export async function readJoinedPage<Row>(
  request: PageRequest,
  rows: OrderedRows<Row>,
  counted: Count,
): Promise<FoundPage<Row>> {
  const [found, [total]] = await Promise.all([pageOf(rows, request), counted]);
  return { rows: found, total: total?.total ?? 0 };
}

/** The order of a list: by `column`, equal rows by `id`. */
export interface ListOrder {
  column: SQLiteColumn;
  id: SQLiteColumn;
  direction: 'asc' | 'desc';
}

export function orderBy({ column, id, direction }: ListOrder): [SQL, SQL] {
  return direction === 'asc' ? [asc(column), asc(id)] : [desc(column), desc(id)];
}

/** Condition: the row follows the one of the cursor. */
export function isAfter({ column, id, direction }: ListOrder, cursor: Cursor | undefined): SQL | undefined {
  if (cursor === undefined) return undefined;
  const follows = sql.raw(direction === 'asc' ? '>' : '<');
  return sql`(${column}, ${id}) ${follows} (${cursor.value}, ${cursor.id})`;
}

function pageOf<Row>(rows: OrderedRows<Row>, { page, limit }: PageRequest): Query<Row> {
  return rows.limit(limit).offset((page - 1) * limit);
}

/**
 * The query that counts rows, at most LIMIT.listTotal and one more. The count is limited because the query
 * reads each row.
 */
export function boundedCountOf(
  db: DrizzleD1Database,
  table: SQLiteTable & { id: SQLiteColumn },
  condition: SQL | undefined,
) {
  const some = db
    .select({ id: table.id })
    .from(table)
    .where(condition)
    .limit(LIMIT.listTotal + 1)
    .as('some');
  return db.select({ total: count() }).from(some);
}

/** The query that counts all rows. Only for tables that a limit keeps small. */
export function countOf(db: DrizzleD1Database, table: SQLiteTable, condition: SQL | undefined) {
  return db.select({ total: count() }).from(table).where(condition);
}

/** Condition: the column has one of these values. They are one parameter, because D1 binds at most a hundred. */
export function isAmong(column: SQLiteColumn | SQL, values: readonly string[] | null): SQL | undefined {
  return values === null
    ? undefined
    : sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
}

/** The columns of the violated unique index, comma-separated (`api_keys.key_hash`); undefined if none. */
export function brokenUnique(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  for (const { message } of causesOf(error)) {
    const match = /UNIQUE constraint failed: ([^:]+)/.exec(message);
    if (match?.[1]) return match[1].trim();
  }
  return undefined;
}

export function brokeForeignKey(error: unknown): boolean {
  const isForeign = ({ message }: Error) => message.includes('FOREIGN KEY constraint failed');
  return error instanceof Error && causesOf(error).some(isForeign);
}
