/** The configuration snapshot as REST reads it (spec: Site configuration snapshot). */
import { type JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { logEntries } from '../command/log.ts';
import type { SiteParts } from '../parts.ts';
import { readActiveSchedule } from '../schedule/read.ts';

/** JSON of `SiteConfigSnapshot`. */
export function readConfig(site: SiteParts, siteId: string, now: number): JsonText {
  const { config } = site.configuration;
  return jsonObject({
    siteId,
    constraints: config.constraints,
    fallback: config.fallback,
    operatingMode: config.operatingMode,
    modeOverride: site.configuration.activeOverride(now),
    activeSchedule: readActiveSchedule(site),
    pendingCommands: logEntries(siteId, site.commands.open(LIMIT.pendingCommands)),
  });
}
