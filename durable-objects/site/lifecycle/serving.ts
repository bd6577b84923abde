/** What happens to dispatches, plan and configuration when a device subscribes or leaves the site. */
import type { Turn } from '../../object/turn.ts';
import type { Configuration } from '../config/configuration.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Departure } from '../dispatch/owner.ts';
import type { Plan } from '../plan/plan.ts';
import type { ViewOf } from '../site-view.ts';

export interface ServingHost {
  devices: Devices;
  sessions: DeviceSessions;
  dispatches: Dispatches;
  plan: Plan;
  configuration: Configuration;
  view: ViewOf;
}

export class Serving {
  readonly #host: ServingHost;

  constructor(host: ServingHost) {
    this.#host = host;
  }

  /**
   * A device has just subscribed: sends what is open for it. In a new session a serving gateway also gets the
   * configuration that it lacks and the current target of the plan.
   */
  subscribed(turn: Turn, deviceId: string): void {
    const { sessions, dispatches, plan, configuration, view } = this.#host;
    plan.catchUp(turn);
    const isNewSession = sessions.handOver(deviceId);
    const isOwed = configuration.state.isOwedTo(deviceId);
    dispatches.resume(turn, deviceId, isNewSession);
    if (!isNewSession || view(turn).gatewayId !== deviceId) return;
    if (isOwed) configuration.sendTo(turn, deviceId);
    plan.resend(turn, deviceId);
  }

  /** A device has left: what is open for it goes to the device that serves instead, or ends. */
  left(turn: Turn, deviceId: string, why: Departure): void {
    const { devices, sessions, dispatches, plan, configuration, view } = this.#host;
    // Read before any dispatch goes to another gateway.
    const owed = devices.all().filter(({ id }) => configuration.state.isOwedTo(id));
    dispatches.deviceGone(turn, deviceId, why);
    const { gatewayId } = view(turn);
    if (!gatewayId || !sessions.isLive(gatewayId, turn.now)) return;
    if (owed.some(({ id }) => id === gatewayId)) configuration.sendTo(turn, gatewayId);
    plan.resend(turn, gatewayId);
  }
}
