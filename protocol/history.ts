/** What the Worker asks of a site's history, and how a Site answers: in chunks, so that no answer is too long for a call. */
import type { Granularity } from './enums.ts';
import type { Aggregate, BucketName } from './telemetry.ts';

/** [fromMs, toMs): the points of one metric, what registers said at the quarters of an hour, or what was planned. */
export type HistoryQuery =
  | { kind: 'telemetry'; metric: string; fromMs: number; toMs: number; granularity: Granularity }
  | { kind: 'meter-readings'; fromMs: number; toMs: number }
  | ScheduleQuery;

/** Schedules that meet the range, by their start; `after`: from behind that place on. */
export interface ScheduleQuery {
  kind: 'schedules';
  fromMs: number;
  toMs: number;
  after: number | null;
}

/** JSON items with commas between; `nextMs`: from where on to ask for the rest (of schedules a place), null = there is none. */
export interface JsonChunk {
  items: string;
  nextMs: number | null;
}

/** Of one metric or all, under the names that the device uses [C-3.5]; `page` from 1. */
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
