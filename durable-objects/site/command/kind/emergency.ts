/** EMERGENCY: all assets stop, or hold what they do (spec: Emergency). It reaches every device in service [C-2.4]. */
import type { Emergency } from '../../../../protocol/command.ts';
import { linkedDevices } from '../../site-facts.ts';
import { checkGateway } from '../checks.ts';
import { toDevices } from '../plan.ts';
import type { Kind } from './kind.ts';

export const emergencyKind: Kind<Emergency> = {
  stages: [({ facts }) => (linkedDevices(facts).length > 0 ? undefined : checkGateway(facts))],
  window: () => ({}),
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  plan: (payload, _items, facts) =>
    toDevices(
      [facts.gatewayId, ...linkedDevices(facts)],
      payload.type === 'STOP' ? 'EMERGENCY_STOP' : 'EMERGENCY_HOLD',
      payload,
    ),
  recheck: () => undefined,
  end: { by: 'ack' },
};
