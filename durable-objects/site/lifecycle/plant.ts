/** The registry's plant has changed: applies the change to devices, dispatches, plan, schedules and alerts. */
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { Turn } from '../../object/turn.ts';
import type { PlantCopy } from '../../registry/plant-copy.ts';
import type { Alerts } from '../alert/alerts.ts';
import type { Commands } from '../command/commands.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import { hasEnded } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Plan } from '../plan/plan.ts';
import type { Presence } from '../presence/presence.ts';
import type { Schedules } from '../schedule/schedules.ts';
import type { DeviceLifecycle } from './device.ts';

export interface PlantHost {
  registry: PlantCopy;
  devices: Devices;
  sessions: DeviceSessions;
  lifecycle: DeviceLifecycle;
  dispatches: Dispatches;
  commands: Commands;
  plan: Plan;
  schedules: Schedules;
  alerts: Alerts;
  presence: Presence;
}

/** `isGone`: the registry has no such plant any more. */
export function plantChanged(turn: Turn, host: PlantHost, isGone: boolean): void {
  const { registry, devices, lifecycle, dispatches, alerts, presence } = host;
  const deviceTypes = registry.record?.deviceTypes ?? {};
  for (const id of devices.allLeaving()) if (!(id in deviceTypes)) lifecycle.remove(turn, id);
  for (const device of devices.all()) devices.setType(turn, device, deviceTypes[device.id] ?? device.type);
  if (isGone) endAll(turn, host);
  else dispatches.recheckWaiting(turn);
  alerts.rulesChanged(turn);
  turn.send(() => presence.noteChange());
}

function endAll(turn: Turn, { devices, sessions, dispatches, commands, plan, schedules }: PlantHost): void {
  for (const { cmd_id: cmdId } of dispatches.rows.all()) {
    // An earlier dispatch of the loop may have ended its command.
    const row = dispatches.rows.find(cmdId);
    if (row && !hasEnded(row.state)) dispatches.fail(turn, row, 'PLANT_GONE');
  }
  for (const { sequence } of [...plan.state.entries.all(), ...schedules.rows.open()])
    commands.fail(turn, sequence, 'PLANT_GONE');
  for (const { id } of devices.all())
    sessions.cut(turn, id, CLOSE_CODES.revoked, 'the plant is gone', turn.now);
}
