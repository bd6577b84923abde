/** MODE_CHANGE: what the plant does where no setpoint stands (spec: Operating mode; [C-7.7]). */
import { MODE_NEEDS } from '../../../../protocol/asset.ts';
import type { ModeChange } from '../../../../protocol/command.ts';
import { formatInstant, parseInstant } from '../../../../protocol/ids.ts';
import { checkGateway, checkTopology } from '../checks.ts';
import { toDevices } from '../to-devices.ts';
import type { Kind } from './kind.ts';

export const modeChangeKind: Kind<ModeChange> = {
  stages: [
    ['target', ({ facts }) => checkGateway(facts)],
    ['topology', ({ payload, facts }) => checkTopology(MODE_NEEDS[payload.mode], facts)],
  ],
  window: ({ validUntil }) => ({ untilMs: validUntil === undefined ? undefined : parseInstant(validUntil) }),
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  // Without validUntil it is the site's operating mode and ends an override; with one it is the override.
  effect: (turn, { configuration, plan, commandId, sequence, keyPrefix }, { mode, reason, validUntil }) => {
    if (validUntil === undefined) configuration.setMode(turn, mode);
    else {
      configuration.overrideMode(turn, {
        mode,
        reason: reason ?? null,
        validFrom: formatInstant(turn.now),
        validUntil,
        commandId,
        setBy: keyPrefix,
      });
    }
    plan.takeMode(turn, sequence, mode);
  },
  plan: (payload, _items, facts) => toDevices([facts.gatewayId], 'MODE_CHANGE', payload),
  replan: (payload, _dispatch, facts) => toDevices([facts.gatewayId], 'MODE_CHANGE', payload),
  recheck: () => undefined,
  end: 'ack',
};
