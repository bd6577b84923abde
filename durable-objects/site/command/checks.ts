/** Checks that several command kinds share, pure: site facts in, refusal out (spec: Command processing; [C-7.4]). */
import type { AssetType } from '../../../protocol/enums.ts';
import { type Constraints, UNLIMITED } from '../../../protocol/site-config.ts';
import type { SiteFacts } from '../site-facts.ts';
import { type Refusal, refusal, type Violation, violated } from './refusal.ts';

type LimitName = 'maxImportKw' | 'maxExportKw' | 'maxChargeKw' | 'maxDischargeKw';

/** The site's own limit, and the hard one under it; null where there is none. */
export function limitsOf(
  { config: { constraints, hardLimits } }: SiteFacts,
  name: keyof Constraints,
): { constraint: string; limit: number | null }[] {
  return [
    { constraint: name, limit: (constraints ?? UNLIMITED)[name] },
    { constraint: `hardLimits.${name}`, limit: (hardLimits ?? UNLIMITED)[name] },
  ];
}

/** The stricter of both; undefined where there is none. */
export function lowestLimit(facts: SiteFacts, name: keyof Constraints): number | undefined {
  const limits = limitsOf(facts, name).flatMap(({ limit }) => limit ?? []);
  return limits.length === 0 ? undefined : Math.min(...limits);
}

/** The site's own limit, then the hard one under it. `by`: whose item, or which slot, asks for that much. */
export function overLimit(
  facts: SiteFacts,
  name: LimitName,
  value: number,
  by: Pick<Violation, 'deviceId' | 'slot'> = {},
): Refusal | undefined {
  for (const { constraint, limit } of limitsOf(facts, name)) {
    if (limit === null || value <= limit) continue;
    return violated({ constraint, limit, value, unit: 'kW', ...by });
  }
  return undefined;
}

/** What the whole site exchanges with the grid, kW, + = import. `slot`: of a schedule. */
export function checkPower(facts: SiteFacts, signedKw: number, slot?: number): Refusal | undefined {
  return overLimit(facts, signedKw < 0 ? 'maxExportKw' : 'maxImportKw', Math.abs(signedKw), { slot });
}

/** Whether the site limits that direction at all. */
export function isLimited(facts: SiteFacts, name: LimitName): boolean {
  return limitsOf(facts, name).some(({ limit }) => limit !== null);
}

/** A site-level command needs a gateway or controller [C-2.4]. */
export function checkGateway(facts: SiteFacts): Refusal | undefined {
  return facts.gatewayId === undefined ? refusal('DEVICE_OFFLINE', 'no gateway serves this site') : undefined;
}

/** Whether the site has one of the kinds that a command needs. */
export function checkTopology(
  needed: readonly AssetType[] | undefined,
  facts: SiteFacts,
): Refusal | undefined {
  if (!needed || facts.subDevices.some(({ assetType }) => needed.includes(assetType))) return undefined;
  return refusal('UNSUPPORTED_FOR_TOPOLOGY', `the site has no ${needed.join(', ')}`);
}
