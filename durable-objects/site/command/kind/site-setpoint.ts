/** SITE_SETPOINT: the power or energy that the whole site exchanges with the grid (spec: Site setpoint). */

import { EXPORTING } from '../../../../protocol/asset.ts';
import { type SiteSetpoint, targetSignedKw } from '../../../../protocol/command.ts';
import { parseInstant } from '../../../../protocol/ids.ts';
import { LIMIT } from '../../../../protocol/limits.ts';
import type { SiteFacts } from '../../site-facts.ts';
import { checkGateway, checkTopology, overLimit } from '../checks.ts';
import { toDevices } from '../plan.ts';
import type { Refusal } from '../refusal.ts';
import type { Kind, PlannedDispatch } from './kind.ts';

function checkConstraint(setpoint: SiteSetpoint, facts: SiteFacts): Refusal | undefined {
  const name = setpoint.direction === 'IMPORT' ? 'maxImportKw' : 'maxExportKw';
  return overLimit(facts, name, Math.abs(targetSignedKw(setpoint)));
}

function plan(payload: SiteSetpoint, facts: SiteFacts): PlannedDispatch[] {
  return toDevices([facts.gatewayId], 'SITE_SETPOINT', {
    ...payload,
    targetSignedKw: targetSignedKw(payload),
  });
}

export const siteSetpointKind: Kind<SiteSetpoint> = {
  stages: [
    ({ facts }) => checkGateway(facts),
    ({ payload, facts }) => checkConstraint(payload, facts),
    ({ payload, facts }) => (payload.direction === 'EXPORT' ? checkTopology(EXPORTING, facts) : undefined),
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
  plan: (payload, _items, facts) => plan(payload, facts),
  replan: (payload, _dispatch, facts) => plan(payload, facts),
  recheck: (payload, _dispatch, facts) => checkConstraint(payload, facts),
  end: {
    by: 'verdict',
    heldUntilMs: (command, now) => command.valid_until_ms ?? now + LIMIT.openSetpointMs,
    // Without samples to judge by, one that was held to its end is COMPLETED [C-7.8].
    verdict: () => ({ status: 'COMPLETED', reason: 'unmeasured' }),
  },
};
