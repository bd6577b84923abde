/**
 * Commands that wait for the plant: how many may, which of them is still wanted, and who serves them when they go
 * out [C-7.6].
 */
import { parseCommand } from '../../../protocol/command.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';
import { kindOf } from '../command/kind/kinds.ts';
import { type Refusal, refusal } from '../command/refusal.ts';
import type { CommandRow } from '../command/rows.ts';
import type { SiteParts } from '../parts.ts';
import { isForWhoeverServes, wasTold } from './dispatch.ts';
import { commandOf, endUnfit, failWaiting, isOfCommand } from './ends.ts';
import { type DispatchRow, OWN, PLAN_OWN } from './rows.ts';

/** Beyond so many commands the oldest that is no emergency ends. */
export function makeRoom(turn: Turn, site: SiteParts): void {
  const waiting = site.dispatches.waitingCommands();
  const surplus = waiting.length - LIMIT.waitingCommands;
  if (surplus <= 0) return;
  const ends = waiting.filter((command) => command.command_type !== 'EMERGENCY').slice(0, surplus);
  for (const { sequence } of ends) failWaiting(turn, site, sequence, 'QUEUE_FULL');
}

/**
 * Serving devices are found anew when a waiting command goes out: it may by now be for another, or for several. One
 * that its device was told may have been obeyed: it goes to no other, unless it is for whoever serves.
 */
export function findServing(turn: Turn, site: SiteParts, row: DispatchRow): DispatchRow[] {
  if (row.command_sequence === OWN) return [row];
  if (row.command_sequence === PLAN_OWN) {
    const { gatewayId = row.device_id } = site.facts(turn);
    return [gatewayId === row.device_id ? row : site.dispatches.update(turn, row, { device_id: gatewayId })];
  }
  const parsed = readCommand(commandOf(site, row));
  if (!parsed || (wasTold(row) && !isForWhoeverServes(row))) return [row];
  const planned = kindOf(parsed).replan(parsed.payload, row, site.facts(turn));
  if (planned.length === 0) return [row];
  return planned.map(({ deviceId, payloadText }, index) => {
    if (index === 0 && deviceId === row.device_id && payloadText === row.payload) return row;
    const change = { device_id: deviceId, payload: payloadText };
    if (index === 0) return site.dispatches.update(turn, row, change);
    const another = { ...row, ...change, cmd_id: crypto.randomUUID() };
    site.dispatches.insert(turn, another);
    return another;
  });
}

/** Why a command that waited may no longer go out, or undefined when it may. */
export function recheck(turn: Turn, site: SiteParts, row: DispatchRow): Refusal | undefined {
  if (!isOfCommand(row)) return undefined;
  const parsed = readCommand(commandOf(site, row));
  if (!parsed) return refusal('INVALID_PAYLOAD', 'cannot be read any more');
  return kindOf(parsed).recheck(parsed.payload, row, site.facts(turn));
}

/** What the site is has changed: what waits and may no longer go out ends. */
export function recheckWaiting(turn: Turn, site: SiteParts): void {
  for (const { cmd_id: cmdId } of site.dispatches.waiting()) {
    // Another of this round may have ended its command.
    const row = site.dispatches.find(cmdId);
    const why = row?.state === 'WAITING' ? recheck(turn, site, row) : undefined;
    if (row && why) endUnfit(turn, site, row, why);
  }
}

/** A command out of its log row. */
export function readCommand(command: CommandRow) {
  const parsed = parseCommand(command.command_type, command.payload);
  return parsed.ok ? parsed.value : undefined;
}
