/** The registry in D1 compared with registry/schema.ts: the SQL was generated from it and is complete. */
import { env } from 'cloudflare:workers';
import { is } from 'drizzle-orm';
import {
  getTableConfig,
  type IndexColumn,
  SQLiteColumn,
  SQLiteSyncDialect,
  SQLiteTable,
} from 'drizzle-orm/sqlite-core';
import { describe, expect, it } from 'vitest';
import * as schema from '../../../registry/schema.ts';

const TABLES = Object.values(schema).filter((value) => is(value, SQLiteTable));
const BY_NAME = TABLES.map((table) => [getTableConfig(table).name, getTableConfig(table)] as const);

type TableConfig = (typeof BY_NAME)[number][1];

async function pragma<Row>(name: string, argument: string): Promise<Row[]> {
  return (await env.DB.prepare(`PRAGMA ${name}("${argument}")`).all<Row>()).results;
}

/** A default as SQLite prints it back. */
function printDefault(column: SQLiteColumn): string | null {
  if (!column.hasDefault || column.default === undefined) return null;
  const value = column.mapToDriverValue(column.default);
  if (typeof column.default === 'boolean') return String(column.default);
  return typeof value === 'string' ? `'${value}'` : String(value);
}

function primaryKeyOf(config: TableConfig): string[] {
  const composite = config.primaryKeys.flatMap((key) => key.columns.map((column) => column.name));
  return composite.length > 0
    ? composite
    : config.columns.filter((column) => column.primary).map((column) => column.name);
}

/** An index over an expression has no column name. */
const EXPRESSION = '(an expression)';

function nameOf(column: IndexColumn): string {
  return is(column, SQLiteColumn) ? column.name : EXPRESSION;
}

describe('the registry', () => {
  it('has the tables of registry/schema.ts and no others [C-8.4]', async () => {
    const { results } = await env.DB.prepare(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf_*' AND name NOT GLOB 'sqlite_*'
         AND name <> 'd1_migrations' ORDER BY name`,
    ).all<{ name: string }>();
    expect(results.map((row) => row.name)).toEqual(BY_NAME.map(([name]) => name).sort());
  });
});

describe.each(BY_NAME)('the table %s', (name, config) => {
  it('the columns have the order, type, nullability, default and key of the schema (registry/schema.ts)', async () => {
    const rows = await pragma<{
      name: string;
      type: string;
      notnull: number;
      dflt_value: string | null;
      pk: number;
    }>('table_info', name);
    const keys = primaryKeyOf(config);
    expect(
      rows.map((row) => [row.name, row.type.toLowerCase(), row.notnull === 1, row.dflt_value, row.pk]),
    ).toEqual(
      config.columns.map((column) => [
        column.name,
        column.getSQLType(),
        column.notNull,
        printDefault(column),
        keys.indexOf(column.name) + 1,
      ]),
    );
  });

  it('the indexes have the columns and uniqueness of the schema (registry/schema.ts)', async () => {
    const indexes = await pragma<{ name: string; unique: number; origin: string }>('index_list', name);
    const found = await Promise.all(
      indexes
        .filter((index) => index.origin === 'c')
        .map(async (index) => {
          const columns = await pragma<{ name: string | null }>('index_info', index.name);
          return [index.name, index.unique === 1, columns.map((column) => column.name ?? EXPRESSION)];
        }),
    );
    const wanted = config.indexes.map((index) => [
      index.config.name,
      index.config.unique,
      index.config.columns.map(nameOf),
    ]);
    expect(found.toSorted()).toEqual(wanted.toSorted());
  });

  it('the foreign keys are those of the schema (registry/schema.ts)', async () => {
    const found = await pragma<{ table: string; from: string; to: string }>('foreign_key_list', name);
    const wanted = config.foreignKeys.map((key) => {
      const { columns, foreignColumns, foreignTable } = key.reference();
      return [columns[0]?.name, getTableConfig(foreignTable).name, foreignColumns[0]?.name];
    });
    expect(found.map((key) => [key.from, key.table, key.to]).toSorted()).toEqual(wanted.toSorted());
  });

  it('the checks have the name and text of the schema (registry/schema.ts)', async () => {
    const text = await env.DB.prepare(`SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?`)
      .bind(name)
      .first<string>('sql');
    const dialect = new SQLiteSyncDialect();
    const wanted = config.checks.map(
      (check) => `CONSTRAINT "${check.name}" CHECK(${dialect.sqlToQuery(check.value).sql})`,
    );
    for (const constraint of wanted) expect(text).toContain(constraint);
    expect(text?.match(/\bCHECK\s*\(/g) ?? []).toHaveLength(wanted.length);
  });
});
