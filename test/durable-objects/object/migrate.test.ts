/**
 * The numbered migrations of an object's own tables: each runs once, in order, entirely or not at all; and
 * the rollback to older code.
 */
import { runInDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { siteOf } from '#workerd/world.ts';
import { type Migration, migrate } from '../../../durable-objects/object/migrate.ts';
import { SITE_MIGRATIONS } from '../../../durable-objects/site/migrations.ts';
import { VHOST_BACKUP, VHOST_MIGRATIONS } from '../../../durable-objects/vhost/migrations.ts';

/** Runs work in an object without tables. */
async function inEmptyObject(work: (storage: DurableObjectStorage) => void): Promise<void> {
  await runInDurableObject(siteOf(crypto.randomUUID()), async (_site, { storage }) => {
    await storage.deleteAll();
    expect(tables(storage)).toEqual([]);
    work(storage);
  });
}

function tables(storage: DurableObjectStorage): string[] {
  return storage.sql
    .exec<{ name: string }>(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name`,
    )
    .toArray()
    .map(({ name }) => name);
}

/** The entries that ran, in order. */
function ran(storage: DurableObjectStorage): number[] {
  return storage.sql
    .exec<{ entry: number }>('SELECT entry FROM ran ORDER BY rowid')
    .toArray()
    .map(({ entry }) => entry);
}

function stored(storage: DurableObjectStorage) {
  return storage.sql.exec('SELECT * FROM schema_version').toArray();
}

/** Entries that record that they ran, each with the number of entries that code must know to run with it. */
function entries(...lowest: number[]): Migration[] {
  return lowest.map((count, index) => ({
    lowest: count,
    sql: `${index === 0 ? 'CREATE TABLE ran (entry INTEGER NOT NULL);' : ''} INSERT INTO ran VALUES (${index + 1})`,
  }));
}

describe('the migrations of an object', () => {
  it('run in order, each once, however often the object wakes [architecture: toolchain]', async () => {
    await inEmptyObject((storage) => {
      const list = entries(1, 1, 1);
      for (let wake = 0; wake < 3; wake++) {
        migrate(storage, list);
        expect(ran(storage)).toEqual([1, 2, 3]);
      }
      expect(stored(storage)).toEqual([{ id: 1, version: 3, lowest: 1 }]);
    });
  });

  it('run only if they are new: those that already ran do not run again [architecture: toolchain]', async () => {
    await inEmptyObject((storage) => {
      migrate(storage, entries(1));
      migrate(storage, entries(1, 1));
      expect(ran(storage)).toEqual([1, 2]);
      migrate(storage, entries(1, 1, 2, 4));
      expect(ran(storage)).toEqual([1, 2, 3, 4]);
      expect(stored(storage)).toEqual([{ id: 1, version: 4, lowest: 4 }]);
    });
  });

  it('write no row when the object wakes and none of them is new [rule 9]', async () => {
    await inEmptyObject((storage) => {
      const list = entries(1, 1);
      migrate(storage, list);
      const changes = () => storage.sql.exec<{ n: number }>('SELECT total_changes() AS n').one().n;
      const before = changes();
      migrate(storage, list);
      expect(changes()).toBe(before);
    });
  });
});

describe('the tables that a restore leaves as they are', () => {
  it('may be there when the migrations of a vhost run again', async () => {
    await inEmptyObject((storage) => {
      migrate(storage, VHOST_MIGRATIONS);
      for (const name of tables(storage))
        if (!VHOST_BACKUP.apart.includes(name)) storage.sql.exec(`DROP TABLE ${name}`);
      migrate(storage, VHOST_MIGRATIONS);
      expect(stored(storage)).toMatchObject([{ version: VHOST_MIGRATIONS.length }]);
    });
  });
});

describe('a migration that fails', () => {
  const broken: Migration = { lowest: 1, sql: `CREATE TABLE half (x); INSERT INTO nowhere VALUES (1)` };

  it('undoes the migrations before it, too: an empty object stays empty and does not start [architecture: toolchain]', async () => {
    await inEmptyObject((storage) => {
      expect(() => migrate(storage, [...entries(1, 1), broken])).toThrow(/no such table: nowhere/);
      expect(tables(storage)).toEqual([]);
    });
  });

  it('leaves an object as it was before the deploy, and its corrected version runs [architecture: toolchain]', async () => {
    await inEmptyObject((storage) => {
      migrate(storage, entries(1, 1));
      const list = [...entries(1, 1, 1), broken];
      for (let wake = 0; wake < 2; wake++) {
        expect(() => migrate(storage, list)).toThrow(/no such table: nowhere/);
        expect(ran(storage)).toEqual([1, 2]);
        expect(tables(storage)).not.toContain('half');
        expect(stored(storage)).toEqual([{ id: 1, version: 2, lowest: 1 }]);
      }
      migrate(storage, entries(1, 1, 1, 1));
      expect(ran(storage)).toEqual([1, 2, 3, 4]);
    });
  });
});

describe('code that knows fewer migrations than an object has', () => {
  it('runs on the object when every migration allows it, and changes nothing [architecture: what is known to matter]', async () => {
    await inEmptyObject((storage) => {
      const newer = entries(1, 1, 2);
      migrate(storage, newer);
      const before = stored(storage);
      migrate(storage, newer.slice(0, 2));
      expect(ran(storage)).toEqual([1, 2, 3]);
      expect(stored(storage)).toEqual(before);
      migrate(storage, newer);
      expect(ran(storage)).toEqual([1, 2, 3]);
    });
  });

  it.each([
    ['the last migration requires more', [1, 1, 2], 1, 2],
    ['an earlier migration requires more', [1, 2, 1], 1, 2],
    ['the last migration requires all', [1, 1, 3], 2, 3],
  ])(
    'is refused, with the number of migrations that it must know, when %s [architecture: what is known to matter]',
    async (_where, lowest, knows, needs) => {
      await inEmptyObject((storage) => {
        const newer = entries(...lowest);
        migrate(storage, newer);
        expect(() => migrate(storage, newer.slice(0, knows))).toThrow(
          `stored schema version 3 needs code with ${needs} migrations, this code has ${knows}: deploy newer code`,
        );
        expect(ran(storage)).toEqual([1, 2, 3]);
        migrate(storage, newer);
      });
    },
  );

  it('does not lower the requirement when it runs: code that knows even fewer is still refused [architecture: what is known to matter]', async () => {
    await inEmptyObject((storage) => {
      const newest = entries(1, 1, 2);
      migrate(storage, newest);
      migrate(storage, newest.slice(0, 2));
      expect(() => migrate(storage, newest.slice(0, 1))).toThrow(/with 2 migrations, this code has 1/);
    });
  });
});

describe.each([
  ['a site', SITE_MIGRATIONS, ['command', 'device', 'dispatch', 'fact', 'journal_block', 'outbox']],
  ['a vhost', VHOST_MIGRATIONS, ['chunk', 'consumer', 'fact', 'queue', 'received']],
])('the migrations of %s', (_object, list, expected) => {
  it('create the same tables in an empty object and in an object of each earlier version [architecture: toolchain]', async () => {
    for (let from = 0; from <= list.length; from++) {
      await inEmptyObject((storage) => {
        migrate(storage, list.slice(0, from));
        migrate(storage, list);
        migrate(storage, list);
        expect(tables(storage)).toEqual(expect.arrayContaining(expected));
        expect(stored(storage)).toMatchObject([{ version: list.length }]);
      });
    }
  });

  it('never require that code knows more migrations than existed at the time [architecture: what is known to matter]', () => {
    for (const [index, { lowest }] of list.entries()) {
      expect(lowest).toBeGreaterThanOrEqual(1);
      expect(lowest).toBeLessThanOrEqual(index + 1);
    }
  });
});
