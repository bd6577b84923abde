/** The tables of the telemetry store, one for each level; a migration of the site makes them. */

export const LEVELS = ['raw', '5m', '1h', '1d'] as const;
export type Level = (typeof LEVELS)[number];

export const TELEMETRY_TABLES = LEVELS.map(
  (level) => `
    CREATE TABLE telemetry_${level} (
      -- The minute in which its stretch of time begins, and the number of the part.
      id INTEGER PRIMARY KEY,
      end_ms INTEGER NOT NULL,
      -- Its metrics: from this one on, up to but without that one.
      from_metric TEXT NOT NULL,
      until_metric TEXT,
      -- Samples or buckets.
      count INTEGER NOT NULL,
      size INTEGER NOT NULL,
      -- JSON: where each metric's columns begin.
      directory TEXT NOT NULL,
      data BLOB NOT NULL
    );
    `,
)
  .join('')
  .concat(`
    -- What is remembered of the alert rules: rides in the open block's row.
    ALTER TABLE journal_block ADD COLUMN alerts TEXT NOT NULL DEFAULT '';
    `);
