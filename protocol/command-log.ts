/** The command log as partners read it (spec: Command-log page; [C-4.3]). */
import * as z from 'zod';
import { COMMAND_STATUSES, PRIORITIES, REJECTION_CODES } from './enums.ts';
import { commandResult } from './event.ts';
import { COMMAND_TYPES } from './routing-keys.ts';

/** One row. Fields without a value are omitted. */
export const commandLogEntry = z.strictObject({
  id: z.string(),
  messageId: z.string(),
  correlationId: z.string().nullable(),
  siteId: z.string(),
  commandType: z.enum(COMMAND_TYPES),
  /** Empty if the command was not published over AMQP. */
  routingKey: z.string(),
  status: z.enum(COMMAND_STATUSES),
  priority: z.enum(PRIORITIES).optional(),
  /** SITE, or the deviceIds of a batch, separated by commas. */
  target: z.string().nullable(),
  payload: z.record(z.string(), z.unknown()),
  rejectionCode: z.enum(REJECTION_CODES).optional(),
  message: z.string().optional(),
  results: z.array(commandResult).optional(),
  source: z.string(),
  /** Null if no API key sent the command. */
  keyPrefix: z.string().nullable(),
  validFrom: z.string().optional(),
  validUntil: z.string().optional(),
  actualValueKw: z.number().optional(),
  targetValueKw: z.number().optional(),
  deviationKw: z.number().optional(),
  reason: z.string().optional(),
  /** The stage that decided, and the facts it used. */
  decision: z.strictObject({ stage: z.string(), facts: z.record(z.string(), z.unknown()) }).optional(),
  createdAt: z.string(),
  ackedAt: z.string().optional(),
  dispatchedAt: z.string().optional(),
  startedAt: z.string().optional(),
  finishedAt: z.string().optional(),
});
export type CommandLogEntry = z.infer<typeof commandLogEntry>;

/** Rows of one page, newest first. `items`: JSON of `CommandLogEntry[]`; `total`: number of rows on all pages. */
export interface CommandLogPage {
  items: string;
  total: number;
}
