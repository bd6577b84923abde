/** The numbered migrations of the figures' one table. */
import type { Migration } from '../object/migrate.ts';

export const FIGURES_MIGRATIONS: readonly Migration[] = [
  {
    lowest: 1,
    sql: `
    -- The last that each object told; one that is no object has what was counted for it.
    CREATE TABLE reporter (
      object TEXT PRIMARY KEY,
      class TEXT NOT NULL,
      -- JSON: counts by key, and of a vhost its queues.
      counts TEXT NOT NULL,
      queues TEXT,
      -- When it told anything last.
      seen_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    `,
  },
];
