/** Commands on their way to their devices: signed with the device's secret, in the form that it last proved [C-3.7]. */
import type { ModeChange } from '../../../protocol/command.ts';
import { commandMessage } from '../../../protocol/device.ts';
import { commandSigningString } from '../../../protocol/signing.ts';
import type { Turn } from '../../object/turn.ts';
import { hmacHex } from '../../secrets/hmac.ts';
import type { PlannedDispatch } from '../command/kind/kind.ts';
import type { DeviceRow } from '../device/rows.ts';
import type { SiteParts } from '../parts.ts';
import { ackDue, type DispatchWindow, isHeld, isOfSchedule, waitingDue } from './dispatch.ts';
import { type DispatchRow, PLAN_OWN } from './rows.ts';

/** A dispatch of a command: it goes out with this turn if its time has come and its device is there, or waits. */
export function dispatch(
  turn: Turn,
  site: SiteParts,
  commandSequence: number,
  planned: PlannedDispatch,
  { notBeforeMs, expiresAtMs }: Pick<DispatchWindow, 'notBeforeMs' | 'expiresAtMs'>,
): DispatchRow {
  const isHeldBack = isOfSchedule(planned) && site.plan.emergency !== undefined;
  const goesNow = !isHeldBack && notBeforeMs <= turn.now && site.facts(turn).isLive(planned.deviceId);
  const window = { not_before_ms: notBeforeMs, expires_at_ms: expiresAtMs };
  const row: DispatchRow = {
    cmd_id: crypto.randomUUID(),
    command_sequence: commandSequence,
    device_id: planned.deviceId,
    action: planned.action,
    payload: planned.payloadText,
    state: goesNow ? 'SENT' : 'WAITING',
    tries: goesNow ? 1 : 0,
    ...window,
    due_at_ms: goesNow ? ackDue(turn.now) : waitingDue(window, turn.now),
    reason: null,
  };
  site.dispatches.insert(turn, row);
  if (goesNow) sendCommand(turn, site, row);
  return row;
}

/** Once the turn stands; with a fresh `ts` at every dispatch [C-3.9]. */
export function sendCommand(turn: Turn, site: SiteParts, row: DispatchRow): void {
  noteOverruled(turn, site, row);
  if (row.action === 'CONFIG_SET' || row.action === 'SCHEDULE_SET')
    site.configuration.noteAgreed(turn, row.device_id);
  turn.send(() => {
    const device = site.devices.find(row.device_id);
    if (!device) return;
    const { cmd_id: cmdId, action, payload: payloadText } = row;
    sendSigned(site, device, { cmdId, action, payloadText });
  });
}

/** Signed as of now, with what the device last signed with itself. */
export function sendSigned(
  site: Pick<SiteParts, 'clock' | 'secrets' | 'sessions'>,
  device: DeviceRow,
  { cmdId, action, payloadText }: { cmdId: string; action: string; payloadText: string },
): void {
  const ts = site.clock.now();
  const key = site.secrets.commandKey(device, ts);
  if (key === undefined) return;
  const sig = hmacHex(key, commandSigningString(device.id, cmdId, ts, action, payloadText));
  const payload = commandMessage({ cmdId, ts, action, payloadText, sig });
  site.sessions.send(device.id, [{ kind: 'command', payload }]);
}

/** A mode or an emergency of somebody's ends a setpoint at the gateway: if the plan goes on with it, it is told again. */
function noteOverruled(turn: Turn, site: SiteParts, row: DispatchRow): void {
  const { action, command_sequence: sequence, device_id: deviceId } = row;
  if (sequence === PLAN_OWN || deviceId !== site.facts(turn).gatewayId) return;
  if (action === 'MODE_CHANGE') {
    const { mode } = JSON.parse(row.payload) as ModeChange;
    // One that the gateway has taken and is told again is in force.
    site.plan.overrule(
      turn,
      isHeld(row.state) ? { by: 'mode', mode } : { by: 'unanswered mode', sequence, mode },
    );
    // The plan's own mode of before is not told again behind it.
    if (site.plan.told?.by === 'unanswered mode') site.dispatches.deleteOfCommand(turn, PLAN_OWN);
  } else if (action.startsWith('EMERGENCY_')) site.plan.overrule(turn, { by: 'emergency', sequence });
}
