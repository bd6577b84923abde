/** Organizations, their members and their settings [C-1.1]. */
import * as z from 'zod';
import { ROLES } from './enums.ts';
import { LIMIT } from './limits.ts';
import { displayName, email, slug } from './user.ts';

const SETTINGS = {
  requireSignedCommands: z.boolean(),
  /** True: the rejection of a wrong signature contains the text that should have been signed. */
  signatureHints: z.boolean(),
  authFailurePolicy: z.enum(['any', 'attested']),
  telemetryIntervalSeconds: z
    .int()
    .min(LIMIT.telemetryIntervalSecondsMin)
    .max(LIMIT.telemetryIntervalSecondsMax),
  publishRatePerSecond: z.int().min(1).max(10_000),
  deviceRatePerSecond: z.int().min(1).max(1_000),
  restRatePerMinute: z.int().min(10).max(1_000_000),
  journalRetentionDays: z.int().min(LIMIT.journalRetentionDaysMin).max(LIMIT.journalRetentionDaysMax),
  auditRetentionDays: z.int().min(30).max(3_650),
  rawRetentionDays: z.int().min(7).max(400),
  fiveMinuteRetentionDays: z.int().min(30).max(3_650),
  hourlyRetentionDays: z.int().min(365).max(3_650),
};

/** All settings with their defaults. */
export const organizationSettings = z.object({
  requireSignedCommands: SETTINGS.requireSignedCommands.default(false),
  signatureHints: SETTINGS.signatureHints.default(false),
  authFailurePolicy: SETTINGS.authFailurePolicy.default('any'),
  telemetryIntervalSeconds: SETTINGS.telemetryIntervalSeconds.default(LIMIT.telemetryIntervalSeconds),
  publishRatePerSecond: SETTINGS.publishRatePerSecond.default(LIMIT.publishesPerSecond),
  deviceRatePerSecond: SETTINGS.deviceRatePerSecond.default(LIMIT.deviceMessagesPerSecond),
  restRatePerMinute: SETTINGS.restRatePerMinute.default(LIMIT.requestsPerMinute),
  journalRetentionDays: SETTINGS.journalRetentionDays.default(LIMIT.journalRetentionDays),
  auditRetentionDays: SETTINGS.auditRetentionDays.default(LIMIT.auditRetentionDays),
  rawRetentionDays: SETTINGS.rawRetentionDays.default(LIMIT.rawRetentionDays),
  fiveMinuteRetentionDays: SETTINGS.fiveMinuteRetentionDays.default(LIMIT.fiveMinuteRetentionDays),
  hourlyRetentionDays: SETTINGS.hourlyRetentionDays.default(LIMIT.hourlyRetentionDays),
});
export type OrganizationSettings = z.infer<typeof organizationSettings>;

/** The settings in a PATCH; omitted ones stay unchanged. */
const settingsChange = z.strictObject(SETTINGS).partial();

export const organizationRequest = z.strictObject({ name: displayName, slug });
/** The slug is immutable. */
export const organizationChange = z.strictObject({
  name: displayName.optional(),
  settings: settingsChange.optional(),
});
export type OrganizationChange = z.infer<typeof organizationChange>;

/** `role`: the role of the requesting user; null for a SUPER_ADMIN who is not a member. */
export const organizationRecord = z.strictObject({
  id: z.string(),
  name: z.string(),
  slug: z.string(),
  settings: organizationSettings,
  createdAt: z.string(),
  role: z.enum(ROLES).nullable(),
});
export type OrganizationRecord = z.infer<typeof organizationRecord>;

export const memberRequest = z.strictObject({ email, role: z.enum(ROLES) });
export const memberRecord = z.strictObject({
  userId: z.string(),
  email: z.string(),
  name: z.string(),
  role: z.enum(ROLES),
  createdAt: z.string(),
});
export type MemberRecord = z.infer<typeof memberRecord>;
