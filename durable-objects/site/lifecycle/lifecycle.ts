/**
 * The effects of a device that subscribes or leaves, and of a change of the plant, on dispatches, plan and configuration
 * (spec: Device lifecycle). `suspension.ts`, `move.ts` and `rotation.ts` have what happens to a device itself.
 */
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { Alerts } from '../alert/alerts.ts';
import type { Commands } from '../command/commands.ts';
import type { Configuration } from '../config/configuration.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceTables } from '../device/rows.ts';
import type { DeviceSecrets } from '../device/secrets.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import { hasEnded } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Departure } from '../dispatch/owner.ts';
import type { Plan } from '../plan/plan.ts';
import type { Presence } from '../presence/presence.ts';
import type { Schedules } from '../schedule/schedules.ts';
import type { ViewOf } from '../site-view.ts';

export interface LifecycleHost {
  turns: Turns;
  registry: PlantCopy;
  devices: Devices;
  secrets: DeviceSecrets;
  sessions: DeviceSessions;
  tables: DeviceTables;
  presence: Presence;
  alerts: Alerts;
  commands: Commands;
  dispatches: Dispatches;
  plan: Plan;
  schedules: Schedules;
  configuration: Configuration;
  view: ViewOf;
}

export class Lifecycle {
  readonly #host: LifecycleHost;

  constructor(host: LifecycleHost) {
    this.#host = host;
  }

  /**
   * Commands reach the device again, because it has subscribed or is no longer silent: sends what is open for
   * it. In a new session a serving gateway also gets the configuration that it lacks and the current target of
   * the plan.
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
  #left(turn: Turn, deviceId: string, why: Departure): void {
    const { devices, sessions, dispatches, plan, configuration, view } = this.#host;
    // This must be read before any dispatch is sent to another gateway, because sending notes that gateway as
    // configured.
    const owed = devices.all().filter(({ id }) => configuration.state.isOwedTo(id));
    dispatches.deviceGone(turn, deviceId, why);
    const { gatewayId } = view(turn);
    if (!gatewayId || !sessions.isLive(gatewayId, turn.now)) return;
    if (owed.some(({ id }) => id === gatewayId)) configuration.sendTo(turn, gatewayId);
    plan.resend(turn, gatewayId);
  }

  /** Applies a change of the plant in the registry. `isGone`: the registry no longer has the plant. */
  plantChanged(turn: Turn, isGone: boolean): void {
    const { registry, devices, dispatches, alerts, presence } = this.#host;
    const deviceTypes = registry.record?.deviceTypes ?? {};
    for (const id of devices.allLeaving()) if (!(id in deviceTypes)) this.remove(turn, id);
    for (const device of devices.all()) devices.setType(turn, device, deviceTypes[device.id] ?? device.type);
    if (isGone) this.#endAll(turn);
    else dispatches.recheckWaiting(turn);
    if (registry.record?.isSuspended) this.#cutAll(turn, 'organization suspended');
    alerts.rulesChanged(turn);
    turn.send(() => presence.noteChange());
  }

  #endAll(turn: Turn): void {
    const { dispatches, commands, plan, schedules } = this.#host;
    for (const { cmd_id: cmdId } of dispatches.rows.all()) {
      // An earlier dispatch of the loop may have ended its command.
      const row = dispatches.rows.find(cmdId);
      if (row && !hasEnded(row.state)) dispatches.fail(turn, row, 'PLANT_GONE');
    }
    for (const { sequence } of [...plan.state.entries.all(), ...schedules.rows.open()])
      commands.fail(turn, sequence, 'PLANT_GONE');
    this.#cutAll(turn, 'the plant is gone');
  }

  #cutAll(turn: Turn, reason: string): void {
    const { devices, sessions } = this.#host;
    for (const { id } of devices.all()) sessions.cut(turn, id, CLOSE_CODES.revoked, reason, turn.now);
  }

  /** Hands over or ends what is open for a device that leaves. */
  leave(deviceId: string, why: Departure): void {
    const { turns, presence } = this.#host;
    turns.run((turn) => {
      this.#left(turn, deviceId, why);
      presence.update(turn);
    });
  }

  /** Deletes the rows of a device. */
  remove(turn: Turn, deviceId: string): void {
    const { tables, devices, secrets } = this.#host;
    tables.remove(turn, deviceId);
    devices.changed(turn);
    secrets.changed(turn);
  }
}
