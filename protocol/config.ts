/** Site configuration (spec: Site configuration snapshot; [C-2.3]). */
import { z } from 'zod';
import { OPERATING_MODES } from './enums.ts';

const limit = z.number().min(0).max(1e9).nullable();
const percent = z.number().min(0).max(100).nullable();

/** Null means unlimited. Powers in kW, both directions given as magnitudes. */
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

export const UNLIMITED: Constraints = {
  maxImportKw: null,
  maxExportKw: null,
  maxChargeKw: null,
  maxDischargeKw: null,
  minSocPercent: null,
  maxSocPercent: null,
  maxRampKwPerMinute: null,
};

export const fallback = z.strictObject({
  mode: z.enum(OPERATING_MODES),
  afterSeconds: z.int().min(30).max(3_600),
  action: z.enum(['HOLD', 'STOP', 'MODE']),
  setpointKw: z.number().nullable(),
});

export const siteConfig = z.strictObject({
  constraints: constraints.nullable(),
  hardLimits: constraints.nullable(),
  fallback: fallback.nullable(),
  operatingMode: z.enum(OPERATING_MODES),
});
export type SiteConfig = z.infer<typeof siteConfig>;

export const DEFAULT_SITE_CONFIG: SiteConfig = {
  constraints: null,
  hardLimits: null,
  fallback: null,
  operatingMode: 'STANDARD',
};

export interface ModeOverride {
  mode: (typeof OPERATING_MODES)[number];
  reason: string | null;
  validFrom: string;
  validUntil: string;
  commandId: string;
  setBy: string;
}

/** Organization settings that the objects act on [C-1.1]. */
export const organizationSettings = z.object({
  requireSignedCommands: z.boolean().default(false),
  telemetryIntervalSeconds: z.int().min(5).max(300).default(10),
});
export type OrganizationSettings = z.infer<typeof organizationSettings>;
