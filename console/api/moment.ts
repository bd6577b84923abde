/** What the screen of a site shows of an earlier moment, in four calls. */

import { alertStatusAt, commandAt } from './as-it-was.ts';
import { api, read } from './client.ts';
import { platformNow } from './clock.ts';
import { ALERTS, COMMANDS, explain } from './site.ts';
import type { Alert, Command, Explanation, Latest } from './types.ts';

export interface Moment {
  explanation: Explanation;
  latest: Latest;
  /** The newest ones of that moment, as they were then. */
  commands: Command[];
  alerts: Alert[];
}

/** Moments that are kept: a reader goes to and fro. */
const KEPT = 50;
/**
 * A moment that is younger may still change: devices may send readings five minutes late, and an alert begins before its
 * rule has waited.
 */
const SETTLED_MS = 15 * 60_000;
/** How long a younger one is kept. */
const YOUNG_MS = 10_000;

const known = new Map<string, { moment: Moment; untilMs: number }>();

export async function readMoment(id: string, atMs: number): Promise<Moment> {
  const name = `${id} ${atMs}`;
  const before = known.get(name);
  if (before && performance.now() < before.untilMs) return before.moment;
  const at = new Date(atMs).toISOString();
  const path = { id };
  const [explanation, latest, { items }, { data }] = await Promise.all([
    explain(id, atMs),
    read(api.GET('/api/v1/plants/{id}/telemetry/latest', { params: { path, query: { at } } })),
    read(api.GET('/api/v1/plants/{id}/commands', { params: { path, query: { at, pageSize: COMMANDS } } })),
    read(api.GET('/api/v1/alerts', { params: { query: { at, plantId: id, limit: ALERTS } } })),
  ]);
  const moment: Moment = {
    ...{ explanation, latest, commands: items.map((command) => commandAt(command, atMs)) },
    alerts: (data as Alert[]).map((alert) => ({ ...alert, status: alertStatusAt(alert, atMs) })),
  };
  const now = performance.now();
  known.set(name, {
    moment,
    untilMs: platformNow() - atMs > SETTLED_MS ? Number.POSITIVE_INFINITY : now + YOUNG_MS,
  });
  const [oldest] = known.keys();
  if (known.size > KEPT && oldest !== undefined) known.delete(oldest);
  return moment;
}
