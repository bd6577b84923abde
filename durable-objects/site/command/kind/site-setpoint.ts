/** SITE_SETPOINT: the power or energy that the whole site exchanges with the grid (spec: Site setpoint). */

import { EXPORTING } from '../../../../protocol/asset.ts';
import { type SiteSetpoint, targetSignedKw } from '../../../../protocol/command.ts';
import { parseInstant } from '../../../../protocol/ids.ts';
import type { SiteFacts } from '../../site-facts.ts';
import { checkGateway, checkPower, checkTopology, lowestLimit } from '../checks.ts';
import type { Refusal } from '../refusal.ts';
import { toDevices } from '../to-devices.ts';
import type { Kind, PlannedDispatch } from './kind.ts';

/** Against the limits that hold now. */
export function checkLimits(setpoint: SiteSetpoint, facts: SiteFacts): Refusal | undefined {
  return checkPower(facts, targetSignedKw(setpoint));
}

/** What its plant is told. */
export function planSetpoint(payload: SiteSetpoint, facts: SiteFacts): PlannedDispatch[] {
  // The ramp is the plant's to keep: it refuses nothing here [C-2.3].
  const maxRampKwPerMinute = lowestLimit(facts, 'maxRampKwPerMinute');
  return toDevices([facts.gatewayId], 'SITE_SETPOINT', {
    ...payload,
    targetSignedKw: targetSignedKw(payload),
    ...(maxRampKwPerMinute === undefined ? {} : { maxRampKwPerMinute }),
  });
}

export const siteSetpointKind: Kind<SiteSetpoint> = {
  stages: [
    ['target', ({ facts }) => checkGateway(facts)],
    ['constraint', ({ payload, facts }) => checkLimits(payload, facts)],
    [
      'topology',
      ({ payload, facts }) => (payload.direction === 'EXPORT' ? checkTopology(EXPORTING, facts) : undefined),
    ],
  ],
  window: ({ validFrom, validUntil }) => ({
    fromMs: parseInstant(validFrom),
    untilMs: validUntil === undefined ? undefined : parseInstant(validUntil),
  }),
  logColumns: (payload) => ({
    priority: payload.priority,
    target: 'SITE',
    target_value_kw: targetSignedKw(payload),
  }),
  plan: (payload, _items, facts) => planSetpoint(payload, facts),
  replan: (payload, _dispatch, facts) => planSetpoint(payload, facts),
  recheck: (payload, _dispatch, facts) => checkLimits(payload, facts),
  end: 'plan',
};
