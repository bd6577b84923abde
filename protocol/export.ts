/**
 * The export of a plant: NDJSON with every input of a decision and every decision, in the order of time. Each line ends with
 * the SHA-256 of the line before it, so that a changed, missing or added line is found [C-13.4].
 */
import * as z from 'zod';
import { ASSET_TYPES, METER_ROLES } from './enums.ts';
import { commandResult } from './event.ts';
import { COMMAND_TYPES } from './routing-keys.ts';

export const EXPORT_TYPE = 'application/x-ndjson';
/** What the first line has in place of the hash of a line before it. */
export const NO_LINE = '0'.repeat(64);

const json = z.record(z.string(), z.unknown());
const millis = z.int().nullable();

/** The first line: whose export it is, and how its readings are read. */
export const exportHead = z.strictObject({
  kind: z.literal('plant'),
  format: z.literal(1),
  siteId: z.string(),
  fromMs: z.int(),
  toMs: z.int(),
  exportedAtMs: z.int(),
  /** How many days before `exportedAtMs` readings are kept. */
  rawRetentionDays: z.int(),
  subDevices: z.array(
    z.strictObject({
      externalId: z.string(),
      assetType: z.enum(ASSET_TYPES),
      meterRole: z.enum(METER_ROLES).nullable(),
      linkedDeviceId: z.string().nullable(),
      ratedPowerKw: z.number().nullable(),
    }),
  ),
});

/** A command: what came, what the judgement read of the site, what it decided, and how the command ended. */
export const exportedCommand = z.strictObject({
  kind: z.literal('command'),
  atMs: z.int(),
  sequence: z.int(),
  id: z.string(),
  commandType: z.enum(COMMAND_TYPES),
  routingKey: z.string(),
  messageId: z.string(),
  source: z.string(),
  payload: z.string(),
  /** Null: recorded before the platform stored inputs, or a configuration change over REST. */
  inputs: json.nullable(),
  decision: json.nullable(),
  status: z.string(),
  rejectionCode: z.string().nullable(),
  message: z.string().nullable(),
  results: z.array(commandResult).nullable(),
  validUntilMs: millis,
  dispatchedAtMs: millis,
  startedAtMs: millis,
  finishedAtMs: millis,
  reason: z.string().nullable(),
  actualKw: z.number().nullable(),
  deviationKw: z.number().nullable(),
  spans: z.array(z.tuple([z.int(), z.int()])),
});

/** An entry of the plan history: acknowledgements of the plant and sessions of the gateway are inputs, targets decisions. */
export const exportedPlan = z.strictObject({ kind: z.literal('plan'), atMs: z.int(), facts: json });

/** The powers and registers of one moment, by metric. */
export const exportedSample = z.strictObject({
  kind: z.literal('sample'),
  atMs: z.int(),
  data: z.record(z.string(), z.number()),
});

/** The last line: without it the export was cut off. */
export const exportEnd = z.strictObject({ kind: z.literal('end'), lines: z.int() });

const chained = { prev: z.string().regex(/^[0-9a-f]{64}$/) };
export const exportLine = z.discriminatedUnion('kind', [
  exportHead.extend(chained),
  exportedCommand.extend(chained),
  exportedPlan.extend(chained),
  exportedSample.extend(chained),
  exportEnd.extend(chained),
]);
export type ExportLine = z.infer<typeof exportLine>;
export type ExportedCommand = z.infer<typeof exportedCommand>;
export type ExportHead = z.infer<typeof exportHead>;

/** The text of a line with the hash of the line before it. */
export function chainedText(line: object, prev: string): string {
  return `${JSON.stringify(line).slice(0, -1)},"prev":"${prev}"}`;
}
