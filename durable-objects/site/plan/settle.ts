/**
 * What follows from the plan, in one place [C-7.7]: windows that are over end their setpoints, newer ones end older
 * ones, and when what the plant is to be told has changed, it is told, once. Runs at the end of each turn that
 * changed the plan, and when time does.
 */
import type { Emergency } from '../../../protocol/command.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { actionOf } from '../command/kind/emergency.ts';
import { checkLimits, planSetpoint } from '../command/kind/site-setpoint.ts';
import type { CommandRow } from '../command/rows.ts';
import { toDevices } from '../command/to-devices.ts';
import { isForWhoeverServes } from '../dispatch/dispatch.ts';
import { expireCommand, failCommand, isOfCommand, raiseViolation } from '../dispatch/ends.ts';
import { PLAN_OWN } from '../dispatch/rows.ts';
import { dispatch } from '../dispatch/send-command.ts';
import { makeRoom, readCommand } from '../dispatch/waiting.ts';
import type { SiteParts } from '../parts.ts';
import { passSchedules, planSlot, skipUnfit } from '../schedule/lifecycle.ts';
import { judgeEntry, leaveTop, setpointOf } from './entry.ts';
import type { KeptEntry } from './rows.ts';
import type { HeldEmergency, PlanEntry, Target } from './stack.ts';

export function planAgenda(site: SiteParts): DueSource {
  return {
    name: 'plan',
    dueMs: () => site.plan.dueMs(site.clock.now()),
    run: (turn) => settle(turn, site),
  };
}

/** Last in every turn: what it changed of the plan has its consequences. */
export function settlePlan(turn: Turn, site: SiteParts): void {
  if (site.plan.takeChange()) turn.step(() => settle(turn, site));
}

/** Ends when the plant is told what the plan says: each round that could not tell it has one entry less. */
export function settle(turn: Turn, site: SiteParts): void {
  for (;;) {
    const { target, isTold } = resolve(turn, site);
    if (!isTold && !tell(turn, site, target)) continue;
    site.plan.takeChange();
    makeRoom(turn, site);
    if (!site.plan.takeChange()) return;
  }
}

/**
 * What time has decided: verdicts, windows that are over, and entries that newer ones replaced, each as at its moment
 * though it is looked at late. Nothing is told by it.
 */
function resolve(turn: Turn, site: SiteParts): { target: Target; isTold: boolean } {
  passSchedules(turn, site);
  const { over, replaced, target, isTold } = site.plan.at(turn.now);
  for (const { entry, by, atMs } of replaced) {
    if (isVerdictDue(entry, atMs)) judgeEntry(turn, site, entry);
    failCommand(turn, site, entry.sequence, `SUPERSEDED by ${site.commands.find(by)?.id}`);
  }
  for (const entry of over) endWindow(turn, site, entry);
  for (const entry of site.plan.entries.all()) {
    if (isVerdictDue(entry, turn.now)) judgeEntry(turn, site, entry);
  }
  return { target, isTold };
}

function isVerdictDue({ verdictAtMs }: KeptEntry, atMs: number): boolean {
  return verdictAtMs !== null && verdictAtMs <= atMs;
}

/** Before a device is told again what is open: what passed unseen is told no more. The turn's end settles the rest. */
export function catchUp(turn: Turn, site: SiteParts): void {
  turn.step(() => resolve(turn, site));
}

/** A new setpoint takes its place. Of those whose time is ahead only so many may wait; the oldest end. */
export function enter(turn: Turn, site: SiteParts, entry: PlanEntry): void {
  site.plan.add(turn, entry);
  const ahead = site.plan.entries.all().filter(({ startsAtMs }) => startsAtMs > turn.now);
  for (const oldest of ahead.slice(0, Math.max(0, ahead.length - LIMIT.commandsAhead))) {
    failCommand(turn, site, oldest.sequence, 'QUEUE_FULL');
  }
  settle(turn, site);
}

/** Limits have changed: a setpoint or a slot that does not fit them any more ends, with its alarm. */
export function rejudge(turn: Turn, site: SiteParts): void {
  resolve(turn, site);
  for (const { sequence } of site.plan.entries.all()) {
    const command = site.commands.find(sequence);
    const setpoint = setpointOf(command);
    const why = setpoint && checkLimits(setpoint, site.facts(turn));
    if (!command || !why) continue;
    if (why.violation) raiseViolation(turn, site, command, why.violation);
    failCommand(turn, site, sequence, why.rejectionCode);
  }
  const slot = site.schedules.standing(turn.now);
  const unfit = slot && planSlot(slot, site.facts(turn)).why;
  if (slot && unfit) skipUnfit(turn, site, slot, unfit);
}

/** All that waits and all setpoints end, schedules stay; the plant holds until a mode change that comes after it. */
export function beginEmergency(turn: Turn, site: SiteParts, emergency: HeldEmergency, id: string): void {
  resolve(turn, site);
  for (const { sequence } of site.plan.entries.all()) {
    // What was never told waits; the rest stands.
    const waits = site.commands.find(sequence)?.dispatched_at_ms === null;
    failCommand(turn, site, sequence, waits ? 'EMERGENCY' : `SUPERSEDED by ${id}`);
  }
  for (const row of site.dispatches.waiting()) {
    if (isOfCommand(row) && !isForWhoeverServes(row))
      failCommand(turn, site, row.command_sequence, 'EMERGENCY');
  }
  site.dispatches.deleteOfCommand(turn, PLAN_OWN);
  site.commanded.clear(turn);
  site.plan.hold(turn, emergency);
}

/** A gateway that is there anew is told what the plan says, unless a dispatch that is under way does it. */
export function tellAgain(turn: Turn, site: SiteParts, deviceId: string): void {
  const { plan, dispatches } = site;
  const { told } = plan;
  // A mode on its way is the last word: nothing older goes out behind it.
  const isModeOpen = dispatches.all().some(({ action }) => action === 'MODE_CHANGE');
  if (!told || told.by === 'unanswered mode' || told.by === 'unknown' || isModeOpen) return;
  if (told.by === 'entry') {
    const isItsOwn = dispatches.ofCommand(told.sequence).some((row) => row.device_id === deviceId);
    if (!isItsOwn) plan.forgetTold(turn);
    return;
  }
  // What the plan itself tells another that served before is none of this one's.
  const open = dispatches.ofCommand(PLAN_OWN).filter((row) => row.device_id === deviceId);
  if (told.by === 'emergency') open.push(...dispatches.ofCommand(told.sequence));
  if (open.length > 0) return;
  dispatches.deleteOfCommand(turn, PLAN_OWN);
  if (told.by === 'slot') plan.forgetTold(turn);
  else tellOwn(turn, site, told);
}

/** Its window is over: it is judged, or was never obeyed, unless its plant was told just now and has yet to answer. */
function endWindow(turn: Turn, site: SiteParts, entry: KeptEntry): void {
  const { sequence } = entry;
  site.plan.remove(turn, sequence);
  const command = site.commands.find(sequence);
  if (command?.status === 'PENDING') {
    if (site.dispatches.ofCommand(sequence).some(({ state }) => state === 'SENT')) return;
    expireCommand(turn, site, command);
  } else if (command?.status === 'EXECUTING') judgeEntry(turn, site, entry);
  site.dispatches.deleteOfCommand(turn, sequence);
}

/** False when it could not be told: its entry has ended by that, and something else is to be told. */
function tell(turn: Turn, site: SiteParts, target: Target): boolean {
  const { plan, dispatches } = site;
  // Whatever was told last: a setpoint that has a dispatch left would be told again, behind this.
  const open = new Set(dispatches.all().map(({ command_sequence: sequence }) => sequence));
  for (const entry of plan.entries.all()) {
    if (entry.obeyedSinceMs !== null || open.has(entry.sequence)) leaveTop(turn, site, entry);
  }
  dispatches.deleteOfCommand(turn, PLAN_OWN);
  if (target.by === 'entry') {
    if (!tellEntry(turn, site, target.sequence)) return false;
  } else if (target.by === 'slot') {
    if (!tellSlot(turn, site)) return false;
  } else tellOwn(turn, site, target);
  plan.noteTold(turn, target.by === 'emergency' ? { ...target, isAgain: true } : target);
  return true;
}

function tellEntry(turn: Turn, site: SiteParts, sequence: number): boolean {
  const entry = site.plan.entries.find(sequence);
  if (!entry) return false;
  const command = site.commands.find(sequence);
  const setpoint = setpointOf(command);
  if (!command || !setpoint) {
    failCommand(turn, site, sequence, 'INVALID_PAYLOAD');
    return false;
  }
  const facts = site.facts(turn);
  const why = checkLimits(setpoint, facts);
  const [planned] = planSetpoint(setpoint, facts);
  if (why?.violation) raiseViolation(turn, site, command, why.violation);
  if (why || !planned) {
    failCommand(turn, site, sequence, why?.rejectionCode ?? 'DEVICE_GONE');
    return false;
  }
  site.dispatches.deleteOfCommand(turn, sequence);
  const window = { notBeforeMs: entry.startsAtMs, expiresAtMs: entry.endsAtMs };
  const row = dispatch(turn, site, sequence, planned, window);
  if (row.state === 'SENT') site.commands.markDispatched(turn, sequence);
  return true;
}

/** The slot that is due: one that was missed is told no more, one that no longer fits is skipped [C-7.9]. */
function tellSlot(turn: Turn, site: SiteParts): boolean {
  const slot = site.schedules.standing(turn.now);
  if (!slot) return false;
  const {
    planned: [planned],
    why,
  } = planSlot(slot, site.facts(turn));
  if (why) skipUnfit(turn, site, slot, why);
  if (planned) dispatch(turn, site, PLAN_OWN, planned, { notBeforeMs: 0, expiresAtMs: slot.endsAtMs });
  return !why;
}

/** A mode in force, or an emergency once more: no command of anybody's waits for its ack. */
function tellOwn(turn: Turn, site: SiteParts, target: Exclude<Target, { by: 'entry' | 'slot' }>): void {
  const { gatewayId } = site.facts(turn);
  const [planned] =
    target.by === 'mode'
      ? toDevices([gatewayId], 'MODE_CHANGE', { mode: target.mode })
      : toDevices([gatewayId], ...emergencyOf(site.commands.find(target.sequence), site.plan.emergency));
  if (planned) dispatch(turn, site, PLAN_OWN, planned, { notBeforeMs: 0, expiresAtMs: null });
}

/** Its action and payload. */
function emergencyOf(command: CommandRow | undefined, held: HeldEmergency | undefined): [string, Emergency] {
  const parsed = command && readCommand(command);
  const payload: Emergency =
    parsed?.commandType === 'EMERGENCY' ? parsed.payload : { type: held?.type ?? 'STOP' };
  return [actionOf(payload), payload];
}
