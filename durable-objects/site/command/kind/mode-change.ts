/** MODE_CHANGE: what the plant does while no setpoint is active (spec: Operating mode; [C-7.7]). */
import { MODE_NEEDS } from '../../../../protocol/asset.ts';
import type { ModeChange } from '../../../../protocol/command.ts';
import { parseInstant } from '../../../../protocol/ids.ts';
import { toDevices } from '../../dispatch/dispatch.ts';
import { checkGateway, checkTopology } from '../checks.ts';
import type { Kind } from './kind.ts';

const ACTION = 'MODE_CHANGE';

/** Whether a dispatch changes the gateway's mode, for a command or for the plan. */
export function isModeDispatch({ action }: { action: string }): boolean {
  return action === ACTION;
}

export const modeChangeKind: Kind<ModeChange> = {
  stages: [
    ['target', ({ view }) => checkGateway(view)],
    ['topology', ({ payload, view }) => checkTopology(MODE_NEEDS[payload.mode], view)],
  ],
  window: ({ validUntil }) => ({ untilMs: validUntil === undefined ? undefined : parseInstant(validUntil) }),
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  plan: (payload, _items, view) => toDevices([view.gatewayId], ACTION, payload),
  replan: (payload, _dispatch, view) => toDevices([view.gatewayId], ACTION, payload),
  recheck: () => undefined,
};
