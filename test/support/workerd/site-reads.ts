/** What REST reads of a site, parsed. */
import type { CommandLogEntry } from '../../../protocol/command-log.ts';
import type { SiteConfigSnapshot } from '../../../protocol/site-config.ts';
import { type Plant, siteOf } from './world.ts';

export interface LogPage {
  items: CommandLogEntry[];
  total: number;
}

/** A page of the command log, newest first. `atMs`: of the commands that were recorded at this time or before. */
export async function readCommands(siteId: string, page = 1, pageSize = 50, atMs?: number): Promise<LogPage> {
  const { items, total } = await siteOf(siteId).readCommands(siteId, page, pageSize, 'member', atMs);
  return { items: JSON.parse(items), total };
}

/** The configuration snapshot. */
export async function readConfig(siteId: string): Promise<SiteConfigSnapshot> {
  return JSON.parse(await siteOf(siteId).readConfig(siteId, 'member'));
}

/** The newest row of the command log. */
export async function newestCommand(siteId: string): Promise<Record<string, unknown>> {
  const [newest] = (await readCommands(siteId, 1, 1)).items;
  if (!newest) throw new Error('the command log is empty');
  return newest;
}

/** The status of the newest command, with its reason if it has one. */
export async function newestEnd(siteId: string): Promise<string> {
  const { status, reason } = await newestCommand(siteId);
  return reason === undefined ? String(status) : `${status} ${reason}`;
}

/** The grid power of the latest telemetry; null if there is none. */
export async function gridPowerKw(plant: Plant): Promise<number | null> {
  return (await siteOf(plant.id).readLatestTelemetry(plant.id)).payload.gridPowerKw;
}
