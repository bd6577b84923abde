/**
 * How a site stores the levels of telemetry, and their tables, which a site migration creates. Samples are packed
 * into `raw` and BASE; when a day is over, BASE rolls up into the wider levels.
 */
import { BUCKET_MS, GRANULARITIES, type Granularity } from '../../../protocol/telemetry.ts';

const DAY = BUCKET_MS['1d'];

/** The organization's setting that says how long a level is kept. */
export type RetentionSetting = 'rawRetentionDays' | 'fiveMinuteRetentionDays' | 'hourlyRetentionDays';

interface LevelStorage {
  /**
   * How much time one page of roll-ups covers, in whole days; 0 for raw samples, which get a new stretch with
   * each packing.
   */
  pageMs: number;
  keptBy: RetentionSetting;
}

/** How each level is stored. Its storage budget in bytes is in `SITE_BOUNDS` (`site/bounds.ts`). */
export const LEVELS: Readonly<Record<Granularity, LevelStorage>> = {
  raw: { pageMs: 0, keptBy: 'rawRetentionDays' },
  '5m': { pageMs: DAY, keptBy: 'fiveMinuteRetentionDays' },
  '1h': { pageMs: 32 * DAY, keptBy: 'hourlyRetentionDays' },
  '1d': { pageMs: 512 * DAY, keptBy: 'hourlyRetentionDays' },
};

/** The narrowest roll-up. */
export const BASE = '5m' as const;
export const BASE_MS = BUCKET_MS[BASE];
export const WIDER_LEVELS = GRANULARITIES.filter((level) => BUCKET_MS[level] > BASE_MS);

/** Makes a value for each level. */
export function ofLevels<Value>(make: (level: Granularity) => Value): Record<Granularity, Value> {
  const entries = GRANULARITIES.map((level) => [level, make(level)]);
  return Object.fromEntries(entries) as Record<Granularity, Value>;
}

export const TELEMETRY_TABLES = [
  `
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
    `,
  ...GRANULARITIES.map(
    (level) => `
    CREATE TABLE telemetry_${level} (
      -- The first minute of the stretch of time, and the number of the segment.
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
