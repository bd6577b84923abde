/** EMERGENCY: all assets stop, or hold what they do (spec: Emergency). It reaches every device in service [C-2.4]. */
import type { Emergency } from '../../../../protocol/command.ts';
import { linkedDevices } from '../../site-facts.ts';
import { checkGateway } from '../checks.ts';
import { toDevices } from '../to-devices.ts';
import type { Kind } from './kind.ts';

export function actionOf({ type }: Emergency): string {
  return type === 'STOP' ? 'EMERGENCY_STOP' : 'EMERGENCY_HOLD';
}

export const emergencyKind: Kind<Emergency> = {
  stages: [['target', ({ facts }) => (linkedDevices(facts).length > 0 ? undefined : checkGateway(facts))]],
  window: () => ({}),
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  plan: (payload, _items, facts) =>
    toDevices([facts.gatewayId, ...linkedDevices(facts)], actionOf(payload), payload),
  // A linked device's is its own; the gateway's goes to whichever gateway there is by now.
  replan: (payload, { device_id: deviceId }, facts) =>
    linkedDevices(facts).includes(deviceId) || facts.isLive(deviceId)
      ? []
      : toDevices([facts.gatewayId], actionOf(payload), payload),
  recheck: () => undefined,
  end: 'ack',
};
