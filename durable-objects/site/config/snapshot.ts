/** The configuration snapshot as REST reads it (spec: Site configuration snapshot). */
import { type JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { logEntries } from '../command/log.ts';
import type { CommandRows } from '../command/rows.ts';
import { readActiveSchedule } from '../schedule/read.ts';
import type { ScheduleRows } from '../schedule/rows.ts';
import type { ConfigurationState } from './state.ts';

export interface SnapshotSources {
  configuration: { readonly state: ConfigurationState };
  scheduleRows: ScheduleRows;
  commandRows: CommandRows;
}

/** JSON of `SiteConfigSnapshot`. */
export function readConfig(
  { configuration: { state }, scheduleRows, commandRows }: SnapshotSources,
  siteId: string,
  now: number,
): JsonText {
  const { config } = state;
  return jsonObject({
    siteId,
    constraints: config.constraints,
    fallback: config.fallback,
    operatingMode: config.operatingMode,
    modeOverride: state.activeOverride(now),
    activeSchedule: readActiveSchedule(scheduleRows, siteId),
    pendingCommands: logEntries(siteId, commandRows.open(LIMIT.pendingCommands)),
  });
}
