/**
 * EMERGENCY: all assets stop or keep their current power (spec: Emergency). Sent to the serving gateway and to
 * every ACTIVE device that a sub-device is linked to [C-2.4].
 */
import type { Emergency } from '../../../../protocol/command.ts';
import { toDevices } from '../../dispatch/dispatch.ts';
import { linkedDevices } from '../../site-view.ts';
import { checkGateway } from '../constraints.ts';
import type { Kind } from './kind.ts';

export function actionOf({ type }: Emergency): string {
  return type === 'STOP' ? 'EMERGENCY_STOP' : 'EMERGENCY_HOLD';
}

export const emergencyKind: Kind<Emergency> = {
  stages: [['target', ({ view }) => (linkedDevices(view).length > 0 ? undefined : checkGateway(view))]],
  reachesLinked: true,
  window: () => ({}),
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  plan: (payload, _items, view) =>
    toDevices([view.gatewayId, ...linkedDevices(view)], actionOf(payload), payload),
  // The dispatch of a linked or live device stays with it; that of any other moves to the current serving gateway.
  replan: (payload, { deviceId }, view) =>
    linkedDevices(view).includes(deviceId) || view.isLive(deviceId)
      ? []
      : toDevices([view.gatewayId], actionOf(payload), payload),
  recheck: () => undefined,
};
