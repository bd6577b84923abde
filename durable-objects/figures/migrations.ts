/** The numbered migrations of the figures' tables. */
import type { Migration } from '../object/migrate.ts';

export const FIGURES_MIGRATIONS: readonly Migration[] = [
  {
    lowest: 1,
    sql: `
    -- All that was ever counted, in one row: JSON, counts by key.
    CREATE TABLE total (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      counts TEXT NOT NULL
    );
    -- The last that each object told.
    CREATE TABLE reporter (
      object TEXT PRIMARY KEY,
      class TEXT NOT NULL,
      -- JSON: of a vhost its queues.
      queues TEXT,
      -- When it told anything last.
      seen_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    `,
  },
];
