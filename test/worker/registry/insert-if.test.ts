/**
 * Conditional inserts name their columns: a column added in the middle of a table changes no other statement.
 */
import { env } from 'cloudflare:workers';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import { beforeEach, describe, expect, it } from 'vitest';
import { IF_CHANGED, insertIf } from '../../../registry/insert-if.ts';

const columns = {
  id: text('id').primaryKey(),
  details: text('details', { mode: 'json' }).$type<object>().notNull().default({}),
  isLast: integer('is_last', { mode: 'boolean' }),
};
/** As the code knows the table. */
const boxes = sqliteTable('boxes', columns);
/** The same with a column in the middle. */
const newer = sqliteTable('boxes', {
  id: columns.id,
  note: text('note').notNull().default('none'),
  details: columns.details,
  isLast: columns.isLast,
});

const TRUE = sql`TRUE`;
const db = drizzle(env.DB);
const stored = async () => (await env.DB.prepare('SELECT * FROM boxes ORDER BY id').all()).results;

describe('a conditional insert', () => {
  beforeEach(async () => {
    await env.DB.exec('DROP TABLE IF EXISTS boxes');
    await env.DB.exec(
      "CREATE TABLE boxes (id TEXT PRIMARY KEY, note TEXT NOT NULL DEFAULT 'none', details TEXT NOT NULL, is_last INTEGER)",
    );
  });

  it('puts each value into its own column though the table has one more in the middle', async () => {
    await insertIf(db, boxes, { id: 'a', details: { x: 1 }, isLast: true }, TRUE);
    await insertIf(db, newer, { id: 'b', details: { x: 2 }, note: 'new', isLast: false }, TRUE);
    expect(await stored()).toEqual([
      { id: 'a', note: 'none', details: '{"x":1}', is_last: 1 },
      { id: 'b', note: 'new', details: '{"x":2}', is_last: 0 },
    ]);
  });

  it('takes the default of a column without a value, and the value of an expression', async () => {
    await insertIf(db, boxes, { id: sql`upper('c')` }, TRUE);
    expect(await stored()).toEqual([{ id: 'C', note: 'none', details: '{}', is_last: null }]);
  });

  it('inserts nothing if the condition does not hold, or the statement before it changed nothing', async () => {
    await insertIf(db, boxes, { id: 'd' }, sql`FALSE`);
    const none = db.delete(boxes).where(sql`id = 'nobody'`);
    await db.batch([none, insertIf(db, boxes, { id: 'e' }, IF_CHANGED)]);
    expect(await stored()).toEqual([]);
    await db.batch([insertIf(db, boxes, { id: 'f' }, TRUE), insertIf(db, boxes, { id: 'g' }, IF_CHANGED)]);
    expect((await stored()).map(({ id }) => id)).toEqual(['f', 'g']);
  });
});
