/** What an API key does now: its connections, its queues, and the commands that were last rejected. */
import * as z from 'zod';
import { REJECTION_CODES } from './enums.ts';
import { COMMAND_TYPES } from './routing-keys.ts';

/** How many rejections are shown. */
export const REJECTIONS_SHOWN = 10;

export const keyConnection = z.strictObject({ address: z.string(), connectedAt: z.string() });

export const keyQueue = z.strictObject({
  name: z.string(),
  /** Messages that wait for a consumer, and those that a client has and did not acknowledge yet. */
  ready: z.int().min(0),
  unacked: z.int().min(0),
  consumers: z.int().min(0),
  /** Time of the oldest message that is not acknowledged; null: there is none. */
  oldestAt: z.string().nullable(),
  /** Messages that were dropped or dead-lettered since the queue began. */
  dropped: z.int().min(0),
});
export type KeyQueue = z.infer<typeof keyQueue>;

export const keyRejection = z.strictObject({
  at: z.string(),
  siteId: z.string(),
  commandType: z.enum(COMMAND_TYPES),
  rejectionCode: z.enum(REJECTION_CODES),
  message: z.string().nullable(),
});
export type KeyRejection = z.infer<typeof keyRejection>;

export const keyStatus = z.strictObject({
  connections: z.array(keyConnection),
  queues: z.array(keyQueue),
  /** Newest first. */
  lastRejections: z.array(keyRejection).max(REJECTIONS_SHOWN),
});
export type KeyStatus = z.infer<typeof keyStatus>;
