/** The tables of the telemetry store, one per level; created by a site migration. */

export const LEVELS = ['raw', '5m', '1h', '1d'] as const;
export type Level = (typeof LEVELS)[number];

const JOURNAL_TABLE = `
    -- Telemetry and status messages as they came, in blocks that also carry the nonces.
    CREATE TABLE journal_block (
      id INTEGER PRIMARY KEY,
      opened_at_ms INTEGER NOT NULL,
      last_at_ms INTEGER NOT NULL,
      starts_at INTEGER NOT NULL,
      size INTEGER NOT NULL,
      event_at_ms INTEGER NOT NULL,
      -- The state of the alert rules; written with the open block, so that it costs no row of its own.
      alerts TEXT NOT NULL DEFAULT '',
      data TEXT NOT NULL
    );
    `;

export const TELEMETRY_TABLES = [
  JOURNAL_TABLE,
  ...LEVELS.map(
    (level) => `
    CREATE TABLE telemetry_${level} (
      -- The first minute of the stretch of time, and the number of the part.
      id INTEGER PRIMARY KEY,
      end_ms INTEGER NOT NULL,
      -- The range of metric names: from_metric inclusive, until_metric exclusive.
      from_metric TEXT NOT NULL,
      until_metric TEXT,
      -- Number of samples or buckets.
      count INTEGER NOT NULL,
      size INTEGER NOT NULL,
      -- JSON: the position of each metric's columns.
      directory TEXT NOT NULL,
      data BLOB NOT NULL
    );
    `,
  ),
].join('');
