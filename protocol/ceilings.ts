/**
 * The ceilings: the maximum load that one organization may put on what all organizations share [C-14.2]. Only
 * the platform's operator changes a ceiling, and an organization's own settings cannot exceed it.
 */
import * as z from 'zod';
import { LIMIT } from './limits.ts';

/** Per ceiling: its default, and the maximum that the operator may set. */
const CEILINGS = {
  /** Maximum of the organization's setting for REST requests a minute of one key or user. */
  restRatePerMinute: [6_000, 1_000_000],
  /** Maximum of the organization's setting for publishes a second of one key. */
  publishRatePerSecond: [500, 10_000],
  /** Maximum of the organization's setting for messages a second of one device. */
  deviceRatePerSecond: [200, 1_000],
  /** Requests a minute of members and keys that may write to D1, which all organizations share. */
  changesPerMinute: [600, 100_000],
  /** Key creations and connection tests a minute, together. */
  keyTestsPerMinute: [10, 1_000],
  invitationsPerDay: [LIMIT.invitationsPerDay, 10_000],
  /** Posts a minute of all webhooks of the organization, and those to one host name, of all organizations together. */
  webhookPostsPerMinute: [3_000, 100_000],
  webhookHostPostsPerMinute: [600, 100_000],
  /** Posts that the members ask for: webhooks made, moved, enabled and tested, events sent again, recoveries. */
  webhookTestsPerMinute: [LIMIT.webhookTestsPerMinute, 1_000],
  plants: [LIMIT.plantsPerOrganization, 100_000],
  alertRules: [LIMIT.alertRulesPerOrganization, 2_000],
} as const satisfies Record<string, readonly [normal: number, most: number]>;

export type CeilingName = keyof typeof CEILINGS;
export type Ceilings = Record<CeilingName, number>;

const NAMES = Object.keys(CEILINGS) as CeilingName[];

function shapeOf<Schema>(schema: (name: CeilingName) => Schema): Record<CeilingName, Schema> {
  return Object.fromEntries(NAMES.map((name) => [name, schema(name)])) as Record<CeilingName, Schema>;
}

export const ceilings = z.strictObject(shapeOf(() => z.int().min(1)));
/** A change by the operator: omitted ceilings stay unchanged, and null restores the default. */
export const ceilingsChange = z.strictObject(
  shapeOf((name) => z.int().min(1).max(CEILINGS[name][1]).nullable().optional()),
);
export type CeilingsChange = z.infer<typeof ceilingsChange>;

/** The ceilings of an organization. `changed`: those that the operator has set for it. */
export function ceilingsOf(changed: Readonly<Record<string, number>>): Ceilings {
  return Object.fromEntries(NAMES.map((name) => [name, changed[name] ?? CEILINGS[name][0]])) as Ceilings;
}

/** The names of the settings that exceed their ceiling. */
export function overCeiling(settings: Readonly<Record<string, unknown>>, of: Ceilings): CeilingName[] {
  return NAMES.filter((name) => {
    const wanted = settings[name];
    return typeof wanted === 'number' && wanted > of[name];
  });
}
