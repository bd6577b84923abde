/** The configuration snapshot as REST reads it (spec: Site configuration snapshot). */
import { LIMIT } from '../../../protocol/limits.ts';
import type { SiteConfigSnapshot } from '../../../protocol/site-config.ts';
import { PagePayloads } from '../command/kept-payload.ts';
import { logEntry } from '../command/log.ts';
import type { SiteParts } from '../parts.ts';

export function readConfig(site: SiteParts, siteId: string, now: number): SiteConfigSnapshot {
  const { config } = site.configuration;
  const payloads = new PagePayloads();
  return {
    siteId,
    constraints: config.constraints,
    fallback: config.fallback,
    operatingMode: config.operatingMode,
    modeOverride: site.configuration.activeOverride(now),
    activeSchedule: null,
    pendingCommands: site.commands.open(LIMIT.pendingCommands).map((row) => logEntry(siteId, row, payloads)),
  };
}
