/** Reads the SQLite database of a Site, and makes its writes fail. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { siteOf } from './world.ts';

type Row = Record<string, SqlStorageValue>;

/** How often a test polls an object for its own work: enough for any work, and without a timer. */
const MAX_LOOKS = 500;

/** Rows of a site's own tables. */
export async function rowsOf<R extends Row>(siteId: string, sql: string): Promise<R[]> {
  return await runInDurableObject(siteOf(siteId), (_site, state) => state.storage.sql.exec<R>(sql).toArray());
}

/** One number from a site's own tables; 0 if there is no row. */
export async function numberOf(siteId: string, sql: string): Promise<number> {
  const [row] = await rowsOf<{ value: number }>(siteId, `SELECT (${sql}) AS value`);
  return row?.value ?? 0;
}

/** The values of one column of a site's own tables. */
export async function columnOf<Value extends SqlStorageValue>(siteId: string, sql: string): Promise<Value[]> {
  return (await rowsOf(siteId, sql)).map((row) => Object.values(row)[0] as Value);
}

/** A JSON value that a site stores; undefined if there is none. */
export async function factOf<Value>(siteId: string, name: string): Promise<Value | undefined> {
  const [text] = await columnOf<string>(siteId, `SELECT value FROM fact WHERE name = '${name}'`);
  return text === undefined ? undefined : (JSON.parse(text) as Value);
}

/** The status of a device in the object that serves it; undefined where the object has no such device. */
export async function statusOf({ id, siteId }: { id: string; siteId: string }): Promise<string | undefined> {
  return (await rowsOf<{ status: string }>(siteId, `SELECT status FROM device WHERE id = '${id}'`))[0]
    ?.status;
}

/** How many messages a site's journal holds. */
export async function journalLines(siteId: string): Promise<number> {
  const lines = `SELECT sum(length(data) - length(replace(data, char(10), ''))) FROM journal_block`;
  return await numberOf(siteId, `coalesce((${lines}), 0)`);
}

/** How many devices of a site have a session. */
export async function openSessions(siteId: string): Promise<number> {
  return await numberOf(siteId, 'SELECT count(*) FROM device WHERE connection_id IS NOT NULL');
}

/** Waits until the row in D1 has these values: the outbox of the site has reached the registry. */
export async function untilRegistered(
  table: string,
  id: string,
  change: Record<string, unknown>,
): Promise<void> {
  const columns = Object.keys(change).join(', ');
  let row: unknown;
  for (let looks = 0; looks < MAX_LOOKS; looks++) {
    row = await env.DB.prepare(`SELECT ${columns} FROM ${table} WHERE id = ?`).bind(id).first();
    if (JSON.stringify(row) === JSON.stringify(change)) return;
  }
  throw new Error(`${table} ${id} is ${JSON.stringify(row)}, not ${JSON.stringify(change)}`);
}

/** Makes every write of that kind fail, as a full or broken disk does, until `repair`. */
export async function breakWrites(siteId: string, write: string, when = '1'): Promise<void> {
  const sql = `CREATE TRIGGER broken BEFORE ${write} WHEN ${when} BEGIN SELECT RAISE(ABORT, 'broken'); END`;
  await rowsOf(siteId, sql);
}

/** Ends what `breakWrites` began. */
export async function repair(siteId: string): Promise<void> {
  await rowsOf(siteId, 'DROP TRIGGER broken');
}

/** Evicts the object if it is in memory; its sockets hibernate, and the next event wakes it. */
export async function evictSite(siteId: string): Promise<void> {
  await evict(siteId, 'hibernate');
}

/** Evicts the object and closes its sockets without a close event, like a crash. */
export async function crashSite(siteId: string): Promise<void> {
  await evict(siteId, 'close');
}

/** Takes steps, and evicts the object after each. */
export async function evictBetween(siteId: string, ...steps: (() => Promise<unknown>)[]): Promise<void> {
  for (const step of steps) {
    await step();
    await evictSite(siteId);
  }
}

async function evict(siteId: string, webSockets: 'close' | 'hibernate'): Promise<void> {
  try {
    await evictDurableObject(siteOf(siteId), { webSockets });
  } catch (error) {
    if (!String(error).includes('not currently running')) throw error;
  }
}
