/** The constraints of a site that command kinds check. Pure: site view in, refusal out (spec: Command processing; [C-7.4]). */
import type { AssetType } from '../../../protocol/enums.ts';
import { type Constraints, UNLIMITED } from '../../../protocol/site-config.ts';
import { type Refusal, refusal, type Violation, violated } from '../refusal.ts';
import type { SiteView } from '../site-view.ts';

type LimitName = 'maxImportKw' | 'maxExportKw' | 'maxChargeKw' | 'maxDischargeKw';

/** The site's limit and its hard limit; null = unlimited. */
export function limitsOf(
  { config: { constraints, hardLimits } }: SiteView,
  name: keyof Constraints,
): { constraint: string; limit: number | null }[] {
  return [
    { constraint: name, limit: (constraints ?? UNLIMITED)[name] },
    { constraint: `hardLimits.${name}`, limit: (hardLimits ?? UNLIMITED)[name] },
  ];
}

/** The stricter of both limits; undefined if there is none. */
export function lowestLimit(view: SiteView, name: keyof Constraints): number | undefined {
  const limits = limitsOf(view, name).flatMap(({ limit }) => limit ?? []);
  return limits.length === 0 ? undefined : Math.min(...limits);
}

/** Checks the site's limit, then the hard limit. `by`: the sub-device or slot that asks for this value. */
export function overLimit(
  view: SiteView,
  name: LimitName,
  value: number,
  by: Pick<Violation, 'deviceId' | 'slot'> = {},
): Refusal | undefined {
  for (const { constraint, limit } of limitsOf(view, name)) {
    if (limit === null || value <= limit) continue;
    return violated({ constraint, limit, value, unit: 'kW', ...by });
  }
  return undefined;
}

/** Checks a grid exchange of the whole site, kW, + = import. `slot`: the slot number in a schedule. */
export function checkPower(view: SiteView, signedKw: number, slot?: number): Refusal | undefined {
  return overLimit(view, signedKw < 0 ? 'maxExportKw' : 'maxImportKw', Math.abs(signedKw), { slot });
}

/** Whether the site has a limit for this direction. */
export function isLimited(view: SiteView, name: LimitName): boolean {
  return limitsOf(view, name).some(({ limit }) => limit !== null);
}

/** A site-level command needs a gateway or controller [C-2.4]. */
export function checkGateway(view: SiteView): Refusal | undefined {
  return view.gatewayId === undefined ? refusal('DEVICE_OFFLINE', 'no gateway serves this site') : undefined;
}

/** Rejects a command if the site has none of the asset types that it needs. */
export function checkTopology(needed: readonly AssetType[] | undefined, view: SiteView): Refusal | undefined {
  if (!needed || view.subDevices.some(({ assetType }) => needed.includes(assetType))) return undefined;
  return refusal('UNSUPPORTED_FOR_TOPOLOGY', `the site has no ${needed.join(', ')}`);
}
