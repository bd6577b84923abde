/** Queries of the Worker for a site's history. A Site answers in chunks to keep RPC answers small. */
import type { Aggregate, BucketName, Granularity } from './telemetry.ts';

/** Range [fromMs, toMs): the points of one metric, or the quarter-hourly register readings. */
export type HistoryQuery =
  | { kind: 'telemetry'; metric: string; fromMs: number; toMs: number; granularity: Granularity }
  | { kind: 'meter-readings'; fromMs: number; toMs: number };

/** Schedules that overlap the range, ordered by start. `after`: position of the previous chunk's last schedule. */
export interface ScheduleQuery {
  fromMs: number;
  toMs: number;
  after: number | null;
}

/**
 * `items`: JSON values separated by commas. `nextMs`: where the next chunk starts (for schedules a position
 * instead of a time); null after the last chunk.
 */
export interface JsonChunk {
  items: string;
  nextMs: number | null;
}

/** The readings of one metric or of all, under the names that the device uses [C-3.5]. `page` starts at 1. */
export interface DeviceQuery {
  metric?: string | undefined;
  fromMs: number;
  toMs: number;
  bucket: BucketName;
  aggregate?: Aggregate | undefined;
  page: number;
  limit: number;
}

export interface DevicePage {
  items: string;
  total: number;
}
