/** The numbered migrations of the metrics object. */
import type { Migration } from '../object/migrate.ts';

export const FIGURES_MIGRATIONS: readonly Migration[] = [
  {
    lowest: 1,
    sql: `
    -- All counts since the beginning, in one row: JSON, counts by key.
    CREATE TABLE total (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      counts TEXT NOT NULL
    );
    -- The last report of each object.
    CREATE TABLE reporter (
      object TEXT PRIMARY KEY,
      class TEXT NOT NULL,
      -- JSON: the queues of a vhost.
      queues TEXT,
      -- Time of the last report.
      seen_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    `,
  },
];
