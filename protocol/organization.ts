/** What an organization sets for itself [C-1.1]. */
import { z } from 'zod';
import { LIMIT } from './limits.ts';

/** The settings that the objects act on. */
export const organizationSettings = z.object({
  requireSignedCommands: z.boolean().default(false),
  telemetryIntervalSeconds: z
    .int()
    .min(LIMIT.telemetryIntervalSecondsMin)
    .max(LIMIT.telemetryIntervalSecondsMax)
    .default(LIMIT.telemetryIntervalSeconds),
  publishRatePerSecond: z.int().min(1).max(10_000).default(LIMIT.publishesPerSecond),
  deviceRatePerSecond: z.int().min(1).max(1_000).default(LIMIT.deviceMessagesPerSecond),
});
export type OrganizationSettings = z.infer<typeof organizationSettings>;
