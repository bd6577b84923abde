/**
 * The plan of a site and everything that follows from it [C-7.7]: a setpoint whose window has closed ends,
 * newer setpoints replace older ones, and a changed target is sent to the plant, once. Runs at the end of
 * each turn that changed the plan, and when its time has come.
 */
import { type Emergency, parseCommand, type SiteSetpoint } from '../../../protocol/command.ts';
import type { OperatingMode } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turn } from '../../object/turn.ts';
import type { BatteryDemands } from '../command/batch-owner.ts';
import { type Commands, subjectOf } from '../command/commands.ts';
import { actionOf } from '../command/kind/emergency.ts';
import { isModeDispatch } from '../command/kind/mode-change.ts';
import { checkLimits, planSetpoint, recheckSetpoint } from '../command/kind/site-setpoint.ts';
import type { CommandRow } from '../command/rows.ts';
import { type PlannedDispatch, toDevices } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Events } from '../event/events.ts';
import { planSlot, type Schedules } from '../schedule/schedules.ts';
import type { ActiveEmergency, ViewOf } from '../site-view.ts';
import type { Journal } from '../telemetry/journal.ts';
import { measure } from './measure.ts';
import type { PlanEntry, Target } from './stack.ts';
import { followedUntil, type PlanState, type StoredEntry } from './state.ts';
import { judge, settlingTimeMs, spansOf, verdictAtMs } from './verdict.ts';

export interface PlanHost {
  clock: Pick<Clock, 'now'>;
  state: PlanState;
  commands: Commands;
  dispatches: Dispatches;
  schedules: Schedules;
  demands: BatteryDemands;
  events: Events;
  journal: Journal;
  registry: PlantCopy;
  view: ViewOf;
}

/** Dispatches of the plan itself: slots, the mode in force, a repeated emergency. */
const OF_PLAN = { owner: 'PLAN' as const, commandSequence: null };

export class Plan implements DueSource {
  readonly name = 'plan';
  readonly state: PlanState;
  readonly #host: PlanHost;

  constructor(host: PlanHost) {
    this.#host = host;
    this.state = host.state;
  }

  dueMs(): number | undefined {
    return this.state.dueMs(this.#host.clock.now());
  }

  run(turn: Turn): void {
    this.#apply(turn);
  }

  /** Called at the end of every turn: applies the plan if the turn changed something that it depends on. */
  applyChanges(turn: Turn): void {
    if (this.state.takeChange()) turn.step(() => this.#apply(turn));
  }

  /** Repeats until the plant was sent the target. The loop ends, because an entry or slot that cannot be sent ends. */
  #apply(turn: Turn): void {
    for (;;) {
      const { target, isSent } = this.#advance(turn);
      if (!isSent && !this.#send(turn, target)) continue;
      this.state.takeChange();
      this.#host.dispatches.makeRoom(turn);
      if (!this.state.takeChange()) return;
    }
  }

  /**
   * Called before open dispatches are sent to a device again: ends commands that have expired in the
   * meantime, so that they are not sent. `applyChanges` applies the rest at the end of the turn.
   */
  catchUp(turn: Turn): void {
    turn.step(() => this.#advance(turn));
  }

  /**
   * Applies the changes that are due: verdicts, closed windows, and entries that newer ones replaced. Each
   * takes effect as of its own time, even if this runs later. Sends nothing.
   */
  #advance(turn: Turn): { target: Target; isSent: boolean } {
    const { schedules, commands } = this.#host;
    schedules.advance(turn);
    const { over, replaced, target, isSent } = this.state.at(turn.now);
    for (const { entry, by, atMs } of replaced) {
      if (isVerdictDue(entry, atMs)) this.#judge(turn, entry);
      commands.supersede(turn, entry.sequence, by);
    }
    for (const entry of over) this.#endWindow(turn, entry);
    for (const entry of this.state.entries.all()) {
      if (isVerdictDue(entry, turn.now)) this.#judge(turn, entry);
    }
    return { target, isSent };
  }

  // a setpoint

  /** Adds a new setpoint to the plan. Above the limit of future setpoints the oldest of these fails. */
  enter(turn: Turn, entry: PlanEntry): void {
    this.state.add(turn, entry);
    const ahead = this.state.entries.all().filter(({ startsAtMs }) => startsAtMs > turn.now);
    for (const oldest of ahead.slice(0, Math.max(0, ahead.length - LIMIT.commandsAhead))) {
      this.#host.commands.fail(turn, oldest.sequence, 'QUEUE_FULL');
    }
    this.#apply(turn);
  }

  /** Whether a setpoint is in the plan, and another target is active now. */
  isDisplaced(turn: Turn, sequence: number): boolean {
    if (!this.state.entries.find(sequence)) return false;
    const { target } = this.state.at(turn.now);
    return target.by !== 'entry' || target.sequence !== sequence;
  }

  /**
   * The gateway acknowledges a setpoint: the plant follows it, unless another target has displaced it meanwhile. Only
   * the verdict ends the command. `isAtWork`: see `CommandRows.markStarted`.
   */
  follow(turn: Turn, command: CommandRow, setpoint: SiteSetpoint, isAtWork: boolean): void {
    const { commands, dispatches, events } = this.#host;
    const entry = this.state.entries.find(command.sequence);
    const starts = command.status === 'PENDING';
    if (starts) {
      commands.rows.markStarted(turn, command.sequence, isAtWork);
      events.executing(turn, subjectOf(command), { targetValueKw: command.target_value_kw });
    }
    if (entry) {
      this.state.entries.update(turn, entry, {
        obeyedSinceMs: this.isDisplaced(turn, command.sequence) ? null : turn.now,
        verdictAtMs: starts ? verdictAtMs(setpoint, entry, turn.now) : entry.verdictAtMs,
      });
    } else if (starts) {
      // The ack arrived after the window closed. Nobody knows how long the plant followed the setpoint, so
      // the command ends as `unmeasured`.
      const started = { ...command, status: 'EXECUTING' as const, started_at_ms: turn.now };
      commands.finish(turn, started, { status: 'COMPLETED', reason: 'unmeasured' });
      dispatches.rows.deleteOfCommand(turn, command.sequence);
    }
  }

  /** Computes the verdict of a setpoint, once; the entry stays active. */
  #judge(turn: Turn, entry: StoredEntry): void {
    const { commands, events, journal, registry } = this.#host;
    const command = commands.find(entry.sequence);
    const setpoint = setpointOf(command);
    if (this.state.entries.find(entry.sequence)) {
      this.state.entries.update(turn, entry, { verdictAtMs: null, spans: [] });
    }
    if (!command || !setpoint || command.status !== 'EXECUTING' || entry.verdictAtMs === null) return;
    const spans = spansOf(entry, Math.min(turn.now, entry.verdictAtMs));
    const windowMs = entry.verdictAtMs - Math.max(entry.startsAtMs, command.started_at_ms ?? 0);
    const measured = measure(journal, registry, spans, setpoint.includeConsumption);
    const verdict = judge(setpoint, spans, settlingTimeMs(windowMs), measured);
    commands.finish(turn, command, verdict, followedUntil(entry, turn.now));
    if (verdict.status === 'DEVIATED') events.deviated(turn, subjectOf(command), verdict);
  }

  /**
   * The window has closed: computes the verdict, or expires the setpoint if the plant never followed it. Waits while an
   * ack is still outstanding.
   */
  #endWindow(turn: Turn, entry: StoredEntry): void {
    const { commands, dispatches, view } = this.#host;
    const { sequence } = entry;
    this.state.remove(turn, sequence);
    const command = commands.find(sequence);
    if (command?.status === 'PENDING') {
      if (dispatches.rows.ofCommand(sequence).some(({ state }) => state === 'SENT')) return;
      commands.expire(turn, command, view(turn).gatewayId);
    } else if (command?.status === 'EXECUTING') this.#judge(turn, entry);
    dispatches.rows.deleteOfCommand(turn, sequence);
  }

  /**
   * Called when limits have changed: ends the setpoints and the slot that violate a limit now, with an alarm
   * for each.
   */
  rejudge(turn: Turn): void {
    const { commands, events, schedules, view } = this.#host;
    this.#advance(turn);
    for (const { sequence } of this.state.entries.all()) {
      const command = commands.find(sequence);
      const setpoint = setpointOf(command);
      const why = setpoint && checkLimits(setpoint, view(turn));
      if (!command || !why) continue;
      if (why.violation) events.violated(turn, subjectOf(command), why.violation);
      commands.fail(turn, sequence, why.rejectionCode);
    }
    const slot = schedules.rows.activeSlot(turn.now);
    const unfit = slot && planSlot(slot, view(turn)).why;
    if (slot && unfit) schedules.skipUnfit(turn, slot, unfit);
  }

  // emergencies and modes

  /**
   * Ends all setpoints and the waiting commands that do not survive an emergency. The emergency is active until
   * a later mode change.
   */
  beginEmergency(turn: Turn, emergency: ActiveEmergency, deviceIds: readonly string[]): void {
    const { commands, dispatches, demands, view } = this.#host;
    this.#advance(turn);
    for (const { sequence } of this.state.entries.all()) {
      const waits = commands.find(sequence)?.dispatched_at_ms === null;
      if (waits) commands.fail(turn, sequence, 'EMERGENCY');
      else commands.supersede(turn, sequence, emergency.sequence);
    }
    for (const row of dispatches.rows.waiting()) {
      if (row.command_sequence !== null && !dispatches.survivesEmergency(row))
        commands.fail(turn, row.command_sequence, 'EMERGENCY');
    }
    dispatches.rows.deleteOfOwner(turn, 'PLAN');
    demands.clear(turn);
    const earlier = this.state.unreleased.filter((deviceId) => view(turn).isActive(deviceId));
    this.state.hold(turn, emergency, [...new Set([...earlier, ...deviceIds])]);
  }

  /** The default mode of the site has changed and no override is active: sends it to a plant that follows the mode. */
  modeChanged(turn: Turn): void {
    const { sent } = this.state;
    if (!sent || sent.by === 'mode') this.state.forgetSent(turn);
  }

  // sending

  /**
   * Sends the current target again to a gateway that has reconnected or serves instead of another, unless an
   * open dispatch already carries it or a newer mode.
   */
  resend(turn: Turn, deviceId: string): void {
    const { rows } = this.#host.dispatches;
    const { sent } = this.state;
    // An open mode change is newer than the target: nothing older may follow it.
    const isModeOpen = [...rows.ofOwner('MODE_CHANGE'), ...rows.ofOwner('PLAN')].some(isModeDispatch);
    if (!sent || sent.by === 'unanswered mode' || sent.by === 'unknown' || isModeOpen) return;
    if (sent.by === 'entry') {
      const isItsOwn = rows.ofCommand(sent.sequence).some((row) => row.device_id === deviceId);
      if (!isItsOwn) this.state.forgetSent(turn);
      return;
    }
    // Only dispatches to this gateway count, not those to the gateway that served before.
    const open = rows.ofOwner('PLAN').filter((row) => row.device_id === deviceId);
    if (sent.by === 'emergency') open.push(...rows.ofCommand(sent.sequence));
    if (open.length > 0) return;
    rows.deleteOfOwner(turn, 'PLAN');
    if (sent.by === 'slot') this.state.forgetSent(turn);
    else if (sent.by === 'mode') this.#sendMode(turn, sent.mode);
    else this.#sendEmergency(turn, sent.sequence);
  }

  /** False when the target could not be sent: its entry or slot has ended, and there is another target. */
  #send(turn: Turn, target: Target): boolean {
    const { rows } = this.#host.dispatches;
    // An open dispatch of an older setpoint would be repeated after the new target.
    const open = new Set(rows.all().map(({ command_sequence: sequence }) => sequence));
    for (const entry of this.state.entries.all()) {
      if (entry.obeyedSinceMs !== null || open.has(entry.sequence)) this.#leaveTop(turn, entry);
    }
    rows.deleteOfOwner(turn, 'PLAN');
    if (target.by === 'entry') {
      if (!this.#sendEntry(turn, target.sequence)) return false;
    } else if (target.by === 'slot') {
      if (!this.#sendSlot(turn)) return false;
    } else if (target.by === 'mode') this.#sendMode(turn, target.mode);
    else this.#sendEmergency(turn, target.sequence);
    this.state.noteSent(turn, target.by === 'emergency' ? { ...target, isAgain: true } : target);
    return true;
  }

  /**
   * Another target replaces an entry: its time on top is stored for the verdict. Its dispatch is deleted, unless the ack
   * may still be under way.
   */
  #leaveTop(turn: Turn, entry: StoredEntry): void {
    const { rows } = this.#host.dispatches;
    for (const row of rows.ofCommand(entry.sequence)) {
      if (row.state !== 'SENT') rows.delete(turn, row.cmd_id);
    }
    if (entry.obeyedSinceMs === null) return;
    const spans = entry.verdictAtMs === null ? [] : spansOf(entry, turn.now).slice(-LIMIT.planSpans);
    this.state.entries.update(turn, entry, { obeyedSinceMs: null, spans });
  }

  #sendEntry(turn: Turn, sequence: number): boolean {
    const { commands, dispatches, events } = this.#host;
    const entry = this.state.entries.find(sequence);
    if (!entry) return false;
    const command = commands.find(sequence);
    const setpoint = setpointOf(command);
    if (!command || !setpoint) {
      commands.fail(turn, sequence, 'INVALID_PAYLOAD');
      return false;
    }
    const view = this.#host.view(turn);
    const why = recheckSetpoint(setpoint, view);
    const [planned] = planSetpoint(setpoint, view);
    if (why?.violation) events.violated(turn, subjectOf(command), why.violation);
    if (why || !planned) {
      commands.fail(turn, sequence, why?.rejectionCode ?? 'DEVICE_GONE');
      return false;
    }
    dispatches.rows.deleteOfCommand(turn, sequence);
    const from = { owner: command.command_type, commandSequence: sequence };
    const window = { notBeforeMs: entry.startsAtMs, expiresAtMs: entry.endsAtMs };
    const row = dispatches.create(turn, from, planned, window);
    if (row.state === 'SENT') commands.rows.markDispatched(turn, sequence);
    return true;
  }

  /** Missed slots are not sent; a slot that breaks a limit now is skipped [C-7.9]. */
  #sendSlot(turn: Turn): boolean {
    const { schedules, view } = this.#host;
    const slot = schedules.rows.activeSlot(turn.now);
    if (!slot) return false;
    const {
      planned: [planned],
      why,
    } = planSlot(slot, view(turn));
    if (why) schedules.skipUnfit(turn, slot, why);
    this.#sendOfPlan(turn, planned, slot.endsAtMs);
    return !why;
  }

  #sendMode(turn: Turn, mode: OperatingMode): void {
    const [planned] = toDevices([this.#host.view(turn).gatewayId], 'MODE_CHANGE', { mode });
    this.#sendOfPlan(turn, planned, null);
  }

  #sendEmergency(turn: Turn, sequence: number): void {
    const command = this.#host.commands.find(sequence);
    const parsed = command && parseCommand('EMERGENCY', command.payload);
    const payload: Emergency = parsed?.ok
      ? (parsed.value.payload as Emergency)
      : { type: this.state.emergency?.type ?? 'STOP' };
    const [planned] = toDevices([this.#host.view(turn).gatewayId], actionOf(payload), payload);
    this.#sendOfPlan(turn, planned, null);
  }

  #sendOfPlan(turn: Turn, planned: PlannedDispatch | undefined, expiresAtMs: number | null): void {
    if (planned) this.#host.dispatches.create(turn, OF_PLAN, planned, { notBeforeMs: 0, expiresAtMs });
  }
}

function isVerdictDue({ verdictAtMs: dueMs }: StoredEntry, atMs: number): boolean {
  return dueMs !== null && dueMs <= atMs;
}

/** The setpoint of a log row; undefined when its payload cannot be read. */
export function setpointOf(command: CommandRow | undefined): SiteSetpoint | undefined {
  const parsed = command && parseCommand('SITE_SETPOINT', command.payload);
  return parsed?.ok ? (parsed.value.payload as SiteSetpoint) : undefined;
}
