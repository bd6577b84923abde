/** Statements on D1: each is prepared, bound and run by one call. */
import { env } from 'cloudflare:workers';

export async function runSql(sql: string, ...values: unknown[]): Promise<void> {
  await prepared(sql, values).run();
}

export async function rowsFrom<Row>(sql: string, ...values: unknown[]): Promise<Row[]> {
  return (await prepared(sql, values).all<Row>()).results;
}

/** The values of all rows, in one list. */
export async function valuesFrom(sql: string, ...values: unknown[]): Promise<unknown[]> {
  return (await prepared(sql, values).raw()).flat();
}

/** The first value of the first row; undefined if there is none. */
export async function valueFrom<Value>(sql: string, ...values: unknown[]): Promise<Value | undefined> {
  const [value] = await valuesFrom(sql, ...values);
  return value as Value | undefined;
}

/** The number of rows of a table that meet a condition. */
export async function countOf(table: string, where: string, ...values: unknown[]): Promise<number> {
  return (await valueFrom<number>(`SELECT count(*) FROM ${table} WHERE ${where}`, ...values)) ?? 0;
}

function prepared(sql: string, values: unknown[]): D1PreparedStatement {
  const statement = env.DB.prepare(sql);
  return values.length === 0 ? statement : statement.bind(...values);
}

/** How D1 reads the rows of a query: a text for each statement that `read` prepares. */
export async function plansOf(read: (database: D1Database) => Promise<unknown>): Promise<string[]> {
  const statements: string[] = [];
  const database = new Proxy(env.DB, {
    get: (target, name) => {
      if (name === 'prepare')
        return (text: string) => {
          statements.push(text);
          return target.prepare(text);
        };
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  await read(database);
  const plans = statements.map(async (text) => {
    const values = [...text.matchAll(/\?/g)].map(() => null);
    const rows = await rowsFrom<{ detail: string }>(`EXPLAIN QUERY PLAN ${text}`, ...values);
    return rows.map(({ detail }) => detail).join('; ');
  });
  return await Promise.all(plans);
}
