/** MODE_CHANGE: what the plant does while no setpoint, slot or emergency is active (spec: Operating mode; [C-7.7]). */
import { MODE_NEEDS } from '../../../../protocol/asset.ts';
import type { ModeChange } from '../../../../protocol/command.ts';
import { parseInstant } from '../../../../protocol/ids.ts';
import { toDevices } from '../../dispatch/dispatch.ts';
import type { Refusal } from '../../refusal.ts';
import { linkedDevices, type SiteView } from '../../site-view.ts';
import { checkGateway, checkTopology } from '../constraints.ts';
import type { Kind } from './kind.ts';

const ACTION = 'MODE_CHANGE';

/** Whether a dispatch is a mode change. For a mode command and for the plan, it changes the gateway's mode. */
export function isModeDispatch({ action }: { action: string }): boolean {
  return action === ACTION;
}

/** Checks that the site has an asset that the mode needs. */
function checkAssets({ mode }: ModeChange, view: SiteView): Refusal | undefined {
  return checkTopology(MODE_NEEDS[mode], view);
}

/** The mode that ends an emergency goes to every device that the emergency went to and that still serves [C-7.7]. */
function devicesOf(view: SiteView): (string | undefined)[] {
  const linked = linkedDevices(view);
  const released = view.unreleased.filter(
    (id) => view.isActive(id) && (linked.includes(id) || view.isLive(id)),
  );
  return [view.gatewayId, ...released];
}

export const modeChangeKind: Kind<ModeChange> = {
  stages: [
    ['target', ({ view }) => checkGateway(view)],
    ['topology', ({ payload, view }) => checkAssets(payload, view)],
  ],
  reachesLinked: true,
  window: ({ validUntil }) => ({ untilMs: validUntil === undefined ? undefined : parseInstant(validUntil) }),
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  plan: (payload, _items, view) => toDevices(devicesOf(view), ACTION, payload),
  replan: (payload, _dispatch, view) => toDevices([view.gatewayId], ACTION, payload),
  recheck: (payload, _waiting, view) => checkAssets(payload, view),
};
