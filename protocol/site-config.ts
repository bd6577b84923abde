/** Site configuration (spec: Site configuration snapshot; [C-2.3]). */
import * as z from 'zod';
import { commandLogEntry } from './command-log.ts';
import { OPERATING_MODES } from './enums.ts';
import { allIssues } from './issue.ts';
import { LIMIT } from './limits.ts';
import { ok, type Result, refuse } from './result.ts';
import { scheduleSummary } from './schedule.ts';

const limit = z.number().min(0).max(LIMIT.constraintMagnitude).nullable();
const percent = z.number().min(0).max(100).nullable();

/** Null: no limit. Powers are in kW and never negative, also those of export and discharge. */
export const constraints = z.strictObject({
  maxImportKw: limit,
  maxExportKw: limit,
  maxChargeKw: limit,
  maxDischargeKw: limit,
  minSocPercent: percent,
  maxSocPercent: percent,
  maxRampKwPerMinute: limit,
});
export type Constraints = z.infer<typeof constraints>;

export const UNLIMITED = Object.fromEntries(
  constraints.keyof().options.map((name) => [name, null]),
) as Record<keyof Constraints, null>;

const FALLBACK = {
  mode: z.enum(OPERATING_MODES),
  afterSeconds: z.int().min(LIMIT.fallbackAfterSecondsMin).max(LIMIT.fallbackAfterSecondsMax),
  action: z.enum(['HOLD', 'STOP', 'MODE']),
  setpointKw: z.number().min(-LIMIT.constraintMagnitude).max(LIMIT.constraintMagnitude),
};

export const fallback = z.strictObject({
  ...FALLBACK,
  afterSeconds: FALLBACK.afterSeconds.default(LIMIT.fallbackAfterSeconds),
  setpointKw: FALLBACK.setpointKw.nullable().default(null),
});

/**
 * A merge patch (RFC 7396) of a configuration: omitted fields stay unchanged, null deletes the value.
 * `mergeConfig` checks that the result is complete. Partners cannot set hardLimits.
 */
export const configPatch = z
  .strictObject({
    constraints: constraints.partial().nullable().optional(),
    fallback: z
      .strictObject({
        mode: FALLBACK.mode.nullable().optional(),
        afterSeconds: FALLBACK.afterSeconds.nullable().optional(),
        action: FALLBACK.action.nullable().optional(),
        setpointKw: FALLBACK.setpointKw.nullable().optional(),
      })
      .nullable()
      .optional(),
    operatingMode: z.enum(OPERATING_MODES).optional(),
  })
  .refine(
    (patch) => Object.keys(patch).length > 0,
    'payload: must contain constraints, fallback or operatingMode',
  );
export type ConfigPatch = z.infer<typeof configPatch>;

export const siteConfig = z.strictObject({
  constraints: constraints.nullable(),
  hardLimits: constraints.nullable(),
  fallback: fallback.nullable(),
  operatingMode: z.enum(OPERATING_MODES),
});
export type SiteConfig = z.infer<typeof siteConfig>;

/** Applies a merge patch to a configuration. The refusal lists the faults of the merged configuration [C-7.9]. */
export function mergeConfig(
  config: SiteConfig,
  { constraints: limits, fallback: alone, operatingMode = config.operatingMode }: ConfigPatch,
): Result<SiteConfig, string[]> {
  const merged = {
    hardLimits: config.hardLimits,
    constraints:
      limits === undefined
        ? config.constraints
        : limits && { ...UNLIMITED, ...config.constraints, ...limits },
    fallback: alone === undefined ? config.fallback : alone && withoutNulls({ ...config.fallback, ...alone }),
    operatingMode,
  };
  const parsed = siteConfig.safeParse(merged);
  return parsed.success ? ok(parsed.data) : refuse(allIssues(parsed.error));
}

function withoutNulls(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** The body of a PUT. Omitted `hardLimits` stay unchanged: only an ORG_ADMIN may set them [C-2.3]. */
export const siteConfigRequest = siteConfig.partial({ hardLimits: true });
export type SiteConfigRequest = z.infer<typeof siteConfigRequest>;

export const DEFAULT_SITE_CONFIG: SiteConfig = {
  constraints: null,
  hardLimits: null,
  fallback: null,
  operatingMode: 'STANDARD',
};

/**
 * A mode that ends at `validUntil`. `setBy`: the prefix of the API key that sent it, or the slug of the organization. Of
 * the override of another partner the reason, the id and `setBy` are null.
 */
export const modeOverride = z.strictObject({
  mode: z.enum(OPERATING_MODES),
  reason: z.string().nullable(),
  validFrom: z.string(),
  validUntil: z.string(),
  commandId: z.string().nullable(),
  setBy: z.string().nullable(),
});
export type ModeOverride = z.infer<typeof modeOverride>;

/** spec: Site configuration snapshot. */
export const siteConfigSnapshot = z.strictObject({
  siteId: z.string(),
  constraints: constraints.nullable(),
  fallback: fallback.nullable(),
  operatingMode: z.enum(OPERATING_MODES),
  modeOverride: modeOverride.nullable(),
  activeSchedule: scheduleSummary.nullable(),
  pendingCommands: z.array(commandLogEntry).max(LIMIT.pendingCommands),
});
export type SiteConfigSnapshot = z.infer<typeof siteConfigSnapshot>;
