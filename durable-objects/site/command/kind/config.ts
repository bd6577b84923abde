/**
 * CONFIG: a merge patch of the site's configuration, in force once accepted (spec: {slug}.config.*; [C-7.9]).
 */
import { MODE_NEEDS } from '../../../../protocol/asset.ts';
import {
  type ConfigPatch,
  type Constraints,
  mergeConfig,
  type SiteConfig,
} from '../../../../protocol/site-config.ts';
import { type PlannedDispatch, toDevices } from '../../dispatch/dispatch.ts';
import { type Refusal, together, violated } from '../../refusal.ts';
import type { SiteView } from '../../site-view.ts';
import { checkGateway, checkTopology } from '../constraints.ts';
import type { Kind } from './kind.ts';

/**
 * Plans a dispatch with the whole configuration, because the gateway may have missed patches. Where there is
 * a limit and a hard limit, it contains the stricter one.
 */
export function planConfig(config: SiteConfig, gatewayId: string | undefined): PlannedDispatch[] {
  const { constraints, hardLimits, fallback, operatingMode } = config;
  return toDevices([gatewayId], 'CONFIG_SET', {
    constraints: stricter(constraints, hardLimits),
    fallback,
    operatingMode,
  });
}

/** Of two limits the stricter one. */
export function stricter(one: Constraints | null, other: Constraints | null): Constraints | null {
  if (!one || !other) return one ?? other;
  const fields = Object.entries(one).map(([name, limit]) => {
    const hard = other[name as keyof Constraints];
    return [name, isLooser(name, limit, hard) ? hard : limit];
  });
  return Object.fromEntries(fields) as Constraints;
}

/**
 * Whether `limit` is looser than `than`: lower for minSocPercent, higher for all others. Null is the loosest.
 */
function isLooser(name: string, limit: number | null, than: number | null): boolean {
  if (than === null) return false;
  return limit === null || (name === 'minSocPercent' ? limit < than : limit > than);
}

/** Only an admin sets hard limits; a partner's limit may be stricter or null, but not looser [C-2.3]. */
function checkHardLimits(
  { constraints }: ConfigPatch,
  { config: { hardLimits } }: SiteView,
): Refusal | undefined {
  const looser = Object.entries(constraints ?? {}).flatMap(([name, value]) => {
    const limit = hardLimits?.[name as keyof Constraints] ?? null;
    if (limit === null || value === null || value === undefined || !isLooser(name, value, limit)) return [];
    const unit = name.endsWith('Percent') ? ('%' as const) : ('kW' as const);
    return violated({ constraint: `hardLimits.${name}`, limit, value, unit, how: 'is looser than' });
  });
  return together(looser);
}

/** Merges a patch that was already validated. */
export function mergedConfig(patch: ConfigPatch, config: SiteConfig): SiteConfig {
  const merged = mergeConfig(config, patch);
  if (!merged.ok) throw new Error(`the config patch was not validated: ${merged.refusal.join('; ')}`);
  return merged.value;
}

export const configKind: Kind<ConfigPatch> = {
  faults: (patch, { config }) => {
    const merged = mergeConfig(config, patch);
    return merged.ok ? [] : merged.refusal;
  },
  stages: [
    ['target', ({ view }) => checkGateway(view)],
    ['constraint', ({ payload, view }) => checkHardLimits(payload, view)],
    [
      'topology',
      ({ payload: { operatingMode }, view }) =>
        checkTopology(operatingMode && MODE_NEEDS[operatingMode], view),
    ],
  ],
  nearest: (patch, { constraint, limit, unit }) => {
    const name = constraint.replace('hardLimits.', '');
    const bound = name === 'minSocPercent' ? { min: limit } : { max: limit };
    const constraints = { ...patch.constraints, [name]: limit };
    return {
      payload: { ...patch, constraints },
      admissible: { field: `constraints.${name}`, unit, ...bound },
    };
  },
  window: () => ({}),
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  plan: (patch, _items, { config, gatewayId }) => planConfig(mergedConfig(patch, config), gatewayId),
  // The dispatch gets the present configuration: a mode change may have changed it since the dispatch was planned.
  replan: (_payload, _dispatch, { config, gatewayId }) => planConfig(config, gatewayId),
  recheck: () => undefined,
};
