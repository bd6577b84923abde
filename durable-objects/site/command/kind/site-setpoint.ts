/**
 * SITE_SETPOINT: the power or energy that the whole site, or only its controllable assets, exchange with the
 * grid (spec: Site setpoint).
 */

import { EXPORTING } from '../../../../protocol/asset.ts';
import { type SiteSetpoint, targetSignedKw } from '../../../../protocol/command.ts';
import { parseInstant } from '../../../../protocol/ids.ts';
import { type PlannedDispatch, toDevices } from '../../dispatch/dispatch.ts';
import type { Refusal } from '../../refusal.ts';
import type { SiteView } from '../../site-view.ts';
import { checkGateway, checkPower, checkTopology, lowestLimit } from '../constraints.ts';
import type { Kind } from './kind.ts';

/** Checks a setpoint against the current limits. */
export function checkLimits(setpoint: SiteSetpoint, view: SiteView): Refusal | undefined {
  return checkPower(view, targetSignedKw(setpoint));
}

/** Checks that the site has an asset that can export, for an export. */
function checkAssets({ direction }: SiteSetpoint, view: SiteView): Refusal | undefined {
  return direction === 'EXPORT' ? checkTopology(EXPORTING, view) : undefined;
}

/** Checks a setpoint again that has waited and is sent now [C-7.6]. */
export function recheckSetpoint(setpoint: SiteSetpoint, view: SiteView): Refusal | undefined {
  return checkLimits(setpoint, view) ?? checkAssets(setpoint, view);
}

/** The MQTT command for a setpoint. */
export function planSetpoint(payload: SiteSetpoint, view: SiteView): PlannedDispatch[] {
  // The ramp limit is only passed to the plant, which enforces it; no setpoint is rejected here because of
  // its ramp [C-2.3].
  const maxRampKwPerMinute = lowestLimit(view, 'maxRampKwPerMinute');
  return toDevices([view.gatewayId], 'SITE_SETPOINT', {
    ...payload,
    targetSignedKw: targetSignedKw(payload),
    ...(maxRampKwPerMinute === undefined ? {} : { maxRampKwPerMinute }),
  });
}

export const siteSetpointKind: Kind<SiteSetpoint> = {
  stages: [
    ['target', ({ view }) => checkGateway(view)],
    ['constraint', ({ payload, view }) => checkLimits(payload, view)],
    ['topology', ({ payload, view }) => checkAssets(payload, view)],
  ],
  nearest: (payload, _violation, view, round) => {
    const most = lowestLimit(view, payload.direction === 'EXPORT' ? 'maxExportKw' : 'maxImportKw');
    if (most === undefined) return undefined;
    if (payload.type === 'POWER')
      return {
        payload: { ...payload, targetValueKw: most },
        admissible: { field: 'targetValueKw', unit: 'kW', max: most },
      };
    const energy = round((most * (payload.intervalMinutes ?? 60)) / 60);
    return {
      payload: { ...payload, targetValueKwh: energy },
      admissible: { field: 'targetValueKwh', unit: 'kWh', max: energy },
    };
  },
  window: ({ validFrom, validUntil }) => ({
    fromMs: parseInstant(validFrom),
    untilMs: validUntil === undefined ? undefined : parseInstant(validUntil),
  }),
  logColumns: (payload) => ({
    priority: payload.priority,
    target: 'SITE',
    target_value_kw: targetSignedKw(payload),
  }),
  plan: (payload, _items, view) => planSetpoint(payload, view),
  replan: (payload, _dispatch, view) => planSetpoint(payload, view),
  recheck: (payload, _waiting, view) => recheckSetpoint(payload, view),
};
