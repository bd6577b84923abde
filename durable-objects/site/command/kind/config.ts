/** CONFIG: a merge patch of the site's configuration, in force when it is accepted (spec: {slug}.config.*; [C-7.9]). */
import { MODE_NEEDS } from '../../../../protocol/asset.ts';
import {
  type ConfigPatch,
  type Constraints,
  mergeConfig,
  type SiteConfig,
} from '../../../../protocol/site-config.ts';
import type { SiteFacts } from '../../site-facts.ts';
import { checkGateway, checkTopology } from '../checks.ts';
import { type Refusal, together, violated } from '../refusal.ts';
import { toDevices } from '../to-devices.ts';
import type { Kind, PlannedDispatch } from './kind.ts';

/** The gateway is told all of it, so that it knows what holds whatever it missed; the stricter of both limits. */
export function planConfig(config: SiteConfig, gatewayId: string | undefined): PlannedDispatch[] {
  const { constraints, hardLimits, fallback, operatingMode } = config;
  return toDevices([gatewayId], 'CONFIG_SET', {
    constraints: stricter(constraints, hardLimits),
    fallback,
    operatingMode,
  });
}

function stricter(one: Constraints | null, other: Constraints | null): Constraints | null {
  if (!one || !other) return one ?? other;
  const fields = Object.entries(one).map(([name, limit]) => {
    const hard = other[name as keyof Constraints];
    return [name, isLooser(name, limit, hard) ? hard : limit];
  });
  return Object.fromEntries(fields) as Constraints;
}

/** A state of charge may not fall as low; all else may be more. Without a limit of its own it is looser than any. */
function isLooser(name: string, limit: number | null, than: number | null): boolean {
  if (than === null) return false;
  return limit === null || (name === 'minSocPercent' ? limit < than : limit > than);
}

/** Hard limits are an admin's: a partner may say less than they, or nothing, never more [C-2.3]. */
function checkHardLimits(
  { constraints }: ConfigPatch,
  { config: { hardLimits } }: SiteFacts,
): Refusal | undefined {
  const looser = Object.entries(constraints ?? {}).flatMap(([name, value]) => {
    const limit = hardLimits?.[name as keyof Constraints] ?? null;
    if (limit === null || value === null || value === undefined || !isLooser(name, value, limit)) return [];
    const unit = name.endsWith('Percent') ? ('%' as const) : ('kW' as const);
    return violated({ constraint: `hardLimits.${name}`, limit, value, unit, how: 'is looser than' });
  });
  return together(looser);
}

/** What a patch that was judged comes to. */
export function mergedConfig(patch: ConfigPatch, config: SiteConfig): SiteConfig {
  const merged = mergeConfig(config, patch);
  if (!merged.ok) throw new Error(`a patch that was not judged: ${merged.refusal.join('; ')}`);
  return merged.value;
}

export const configKind: Kind<ConfigPatch> = {
  faults: (patch, { config }) => {
    const merged = mergeConfig(config, patch);
    return merged.ok ? [] : merged.refusal;
  },
  stages: [
    ['target', ({ facts }) => checkGateway(facts)],
    ['constraint', ({ payload, facts }) => checkHardLimits(payload, facts)],
    [
      'topology',
      ({ payload: { operatingMode }, facts }) =>
        checkTopology(operatingMode && MODE_NEEDS[operatingMode], facts),
    ],
  ],
  window: () => ({}),
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  plan: (patch, _items, { config, gatewayId }) => planConfig(mergedConfig(patch, config), gatewayId),
  // By then it may have been merged with others.
  replan: (_payload, _dispatch, { config, gatewayId }) => planConfig(config, gatewayId),
  recheck: () => undefined,
  end: 'ack',
};
