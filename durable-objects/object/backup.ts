/**
 * A backup of an object [C-14.8]: the rows of its tables as lines of JSON. It begins with a header and ends with the
 * number of rows, so a file that was cut off is refused. Behind its fence the object writes the lines in parts. To be
 * restored, it stores the parts beside its tables, then replaces all tables in one transaction: it is the old object or
 * the restored one, never something in between.
 *
 *   {"sitewire":"backup","format":1,"object":"plant","id":"…","schemaVersion":1,"takenAtMs":…}
 *   {"table":"command","columns":["sequence","id",…]}
 *   [1,"…",null,{"base64":"…"}]
 *   {"rows":1}
 */
import * as z from 'zod';
import {
  type BackupPart,
  type BackupPlace,
  type BackupRefusal,
  MAX_PART_CHARS,
  type RestoreAnswer,
} from '../backup-rpc.ts';
import { base64, bytesOf } from '../secrets/base64.ts';
import type { Fence } from './fence.ts';
import { type Migration, migrate } from './migrate.ts';

export interface BackupKind {
  object: 'plant' | 'key';
  migrations: readonly Migration[];
  /**
   * Rows that a restore takes from the object as it is, because a backup must not undo a revocation or a new secret: of
   * these tables by this key column, where the object has the key. `names`: only these keys.
   */
  kept: readonly { table: string; key: string; names?: readonly string[] }[];
  /** Names in the table `fact` that never come from the backup. */
  unrestored: readonly string[];
  /** Tables that are in no backup and that a restore leaves as they are. */
  apart: readonly string[];
}

/** An object may have 10 GB: the restored tables must fit beside the old ones. */
const MAX_BYTES = 9e9;
const ROWS_PER_READ = 20;
/** The platform's tables and those of the restore itself: in no backup, and no restore changes them. */
const LEFT_OUT = /^(_.*|sqlite_.*|schema_version|restore_part)$/;

const header = z.strictObject({
  sitewire: z.literal('backup'),
  format: z.literal(1),
  object: z.enum(['plant', 'key']),
  id: z.string(),
  schemaVersion: z.int().min(1),
  takenAtMs: z.int(),
});
const value = z.union([z.string(), z.number(), z.null(), z.strictObject({ base64: z.base64() })]);
const line = z.union([
  z.strictObject({ table: z.string(), columns: z.array(z.string()).min(1) }),
  z.strictObject({ rows: z.int() }),
  z.array(value),
]);

interface Table {
  name: string;
  columns: string[];
  /** The columns of the primary key. */
  key: string[];
}

export class Backup {
  readonly #storage: DurableObjectStorage;
  readonly #fence: Fence;
  readonly #kind: BackupKind;
  readonly #mostBytes: number;

  /** `mostBytes`: the size up to which the object takes parts to restore. */
  constructor(storage: DurableObjectStorage, fence: Fence, kind: BackupKind, mostBytes = MAX_BYTES) {
    this.#storage = storage;
    this.#fence = fence;
    this.#kind = kind;
    this.#mostBytes = mostBytes;
    // Parts that were not restored: their fence has ended.
    if (!fence.state) storage.sql.exec('DROP TABLE IF EXISTS restore_part');
  }

  /** The part of the backup that begins at `from`, or the first part. */
  read(id: string, fenceId: string, from: BackupPlace | null, now: number): BackupPart | BackupRefusal {
    this.#fence.require(fenceId);
    const tables = this.#tables();
    if (from?.key && from.key.length !== tables[from.table]?.key.length)
      return { refused: 'no part begins at this place' };
    const lines: string[] = [];
    let chars = 0;
    const add = (one: unknown) => {
      const text = JSON.stringify(one);
      chars += text.length;
      lines.push(`${text}\n`);
    };
    if (!from) {
      const { object } = this.#kind;
      const { version } = this.#storage.sql
        .exec<{ version: number }>('SELECT version FROM schema_version')
        .one();
      add({ sitewire: 'backup', format: 1, object, id, schemaVersion: version, takenAtMs: now });
    }
    let { table, key, rows } = from ?? { table: 0, key: null, rows: 0 };
    for (; table < tables.length; table++, key = null) {
      const { name, columns, key: keyColumns } = tables[table] as Table;
      if (!key) add({ table: name, columns });
      for (const row of this.#rowsAfter(tables[table] as Table, key)) {
        add(row.map(plain));
        rows += 1;
        key = keyColumns.map((column) => keyValue(row[columns.indexOf(column)]));
        if (chars >= MAX_PART_CHARS) return { text: lines.join(''), next: { table, key, rows } };
      }
    }
    add({ rows });
    return { text: lines.join(''), next: null };
  }

  /** Stores a part of a backup until `restore`. A repeated part replaces the first one. */
  stage(fenceId: string, part: number, text: string): BackupRefusal | undefined {
    this.#fence.require(fenceId);
    const { sql } = this.#storage;
    if (sql.databaseSize + text.length > this.#mostBytes)
      return { refused: 'it does not fit beside the data that the object has' };
    sql.exec('CREATE TABLE IF NOT EXISTS restore_part (part INTEGER PRIMARY KEY, text TEXT NOT NULL)');
    sql.exec('INSERT OR REPLACE INTO restore_part (part, text) VALUES (?, ?)', part, text);
    return undefined;
  }

  /**
   * Replaces the tables with those of the staged backup and returns what it has; or returns why the backup is
   * refused, and nothing has changed. The object must reload before its next turn: the caller lowers the fence.
   */
  restore(id: string, fenceId: string): RestoreAnswer {
    this.#fence.require(fenceId);
    try {
      const rows = this.#storage.transactionSync(() => this.#replace(id));
      return { rows, deviceIds: this.#deviceIds() };
    } catch (error) {
      if (error instanceof Refused) return { refused: error.message };
      throw error;
    }
  }

  #deviceIds(): string[] {
    if (this.#kind.object !== 'plant') return [];
    return [...this.#storage.sql.exec<{ id: string }>('SELECT id FROM device')].map(({ id }) => id);
  }

  #replace(id: string): number {
    const { sql } = this.#storage;
    const { kept, unrestored, migrations } = this.#kind;
    const present = [...kept, { table: 'fact', key: 'name', names: unrestored }].map((one) => ({
      ...one,
      rows: this.#keptRows(one),
    }));
    const lines = this.#stagedLines();
    const head = header.safeParse(lines.next().value);
    if (!head.success) throw new Refused('its first line is not the header of a backup');
    const { object, schemaVersion } = head.data;
    if (object !== this.#kind.object || head.data.id !== id)
      throw new Refused(`it is of the ${object} ${head.data.id}`);
    if (schemaVersion > migrations.length)
      throw new Refused(
        `its tables have version ${schemaVersion}, this deployment has ${migrations.length}: deploy newer code`,
      );
    for (const { name } of this.#tables()) sql.exec(`DROP TABLE ${name}`);
    sql.exec('DROP TABLE schema_version');
    migrate(this.#storage, migrations.slice(0, schemaVersion));
    const tables = this.#tables();
    for (const { name } of tables) sql.exec(`DELETE FROM ${name}`);
    const rows = this.#insert(lines, tables);
    migrate(this.#storage, migrations);
    for (const name of unrestored) sql.exec('DELETE FROM fact WHERE name = ?', name);
    for (const { table, key, rows: own } of present) {
      for (const row of own) sql.exec(`DELETE FROM ${table} WHERE ${key} = ?`, row[key] ?? null);
      for (const row of own) this.#insertRow(table, Object.keys(row), Object.values(row));
    }
    sql.exec('DROP TABLE restore_part');
    return rows;
  }

  #keptRows({ table, key, names }: BackupKind['kept'][number]): Record<string, SqlStorageValue>[] {
    const rows = this.#storage.sql.exec(`SELECT * FROM ${table}`).toArray();
    return rows.filter((row) => names === undefined || names.includes(String(row[key])));
  }

  /** Inserts the rows of the lines and returns their number. */
  #insert(lines: Generator<unknown>, tables: readonly Table[]): number {
    let into: Table | undefined;
    let rows = 0;
    for (const one of lines) {
      const read = line.safeParse(one);
      if (!read.success) throw new Refused(`the line after row ${rows} is neither a table nor a row`);
      if (Array.isArray(read.data)) {
        if (into?.columns.length !== read.data.length)
          throw new Refused(`row ${rows + 1} has another number of values than its table has columns`);
        this.#insertRow(into.name, into.columns, read.data.map(stored));
        rows += 1;
      } else if ('rows' in read.data) {
        if (read.data.rows !== rows) throw new Refused(`it has ${rows} rows instead of ${read.data.rows}`);
        if (!lines.next().done) throw new Refused('it has lines after its last one');
        return rows;
      } else {
        const { table: name, columns } = read.data;
        const known = tables.find((table) => table.name === name);
        const isKnown = known?.columns.length === columns.length;
        if (!isKnown || columns.some((column) => !known.columns.includes(column)))
          throw new Refused(`its table "${name.slice(0, 40)}" is unknown or has other columns`);
        into = { ...known, columns };
      }
    }
    throw new Refused('it was cut off: its last line, with the number of rows, is missing');
  }

  #insertRow(table: string, columns: readonly string[], values: readonly SqlStorageValue[]): void {
    const marks = columns.map(() => '?').join(', ');
    try {
      this.#storage.sql.exec(`INSERT INTO ${table} (${columns.join(', ')}) VALUES (${marks})`, ...values);
    } catch (error) {
      if (/constraint/i.test(String(error))) throw new Refused(`a row of its table "${table}" is not valid`);
      throw error;
    }
  }

  /** The lines of the staged parts, parsed: a line may be in more than one part. */
  *#stagedLines(): Generator<unknown> {
    const { sql } = this.#storage;
    sql.exec('CREATE TABLE IF NOT EXISTS restore_part (part INTEGER PRIMARY KEY, text TEXT NOT NULL)');
    let begun = '';
    for (let part = 0; ; part++) {
      const query = 'SELECT text FROM restore_part WHERE part = ?';
      const [found] = sql.exec<{ text: string }>(query, part).toArray();
      if (!found) break;
      const lines = `${begun}${found.text}`.split('\n');
      begun = lines.pop() ?? '';
      for (const text of lines) yield parsed(text);
    }
    if (begun !== '') throw new Refused('it was cut off in the middle of a line');
  }

  /** The tables of the object, by name. */
  #tables(): Table[] {
    const { sql } = this.#storage;
    const query = `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`;
    return [...sql.exec<{ name: string }>(query)]
      .filter(({ name }) => !LEFT_OUT.test(name) && !this.#kind.apart.includes(name))
      .map(({ name }) => {
        const columns = sql.exec<{ name: string; pk: number }>(`PRAGMA table_info(${name})`).toArray();
        const key = columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
        if (key.length === 0) throw new Error(`the table ${name} has no primary key`);
        return { name, columns: columns.map((column) => column.name), key: key.map((column) => column.name) };
      });
  }

  /** In pages: a statement that stays open would lock its table. A row has at most 1 MB. */
  *#rowsAfter({ name, columns, key }: Table, after: SqlStorageValue[] | null): Generator<SqlStorageValue[]> {
    const order = key.join(', ');
    const marks = key.map(() => '?').join(', ');
    for (let last = after; ; ) {
      const where = last ? `WHERE (${order}) > (${marks})` : '';
      const query = `SELECT ${columns.join(', ')} FROM ${name} ${where} ORDER BY ${order} LIMIT ${ROWS_PER_READ}`;
      const rows = [...this.#storage.sql.exec(query, ...(last ?? [])).raw()];
      yield* rows;
      const end = rows.at(-1);
      if (!end || rows.length < ROWS_PER_READ) return;
      last = key.map((column) => end[columns.indexOf(column)] ?? null);
    }
  }
}

/** A backup that cannot be restored; the message completes "The backup cannot be restored: …". */
class Refused extends Error {}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refused('one of its lines is not JSON');
  }
}

function plain(one: SqlStorageValue): unknown {
  return one instanceof ArrayBuffer ? { base64: base64Of(new Uint8Array(one)) } : one;
}

/** Keys are texts and numbers. */
function keyValue(one: SqlStorageValue | undefined): string | number | null {
  if (one instanceof ArrayBuffer) throw new Error('a primary key must not be a BLOB');
  return one ?? null;
}

function stored(one: z.infer<typeof value>): SqlStorageValue {
  return one !== null && typeof one === 'object' ? (bytesOf(one.base64).buffer as ArrayBuffer) : one;
}

/** In pieces, because a call has at most some ten thousand arguments; each but the last has a multiple of 3 bytes. */
function base64Of(bytes: Uint8Array): string {
  const pieces: string[] = [];
  for (let at = 0; at < bytes.length; at += 30_000) pieces.push(base64(bytes.subarray(at, at + 30_000)));
  return pieces.join('');
}
