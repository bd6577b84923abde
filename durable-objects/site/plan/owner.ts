/** The owners of setpoints, of emergencies, and of the plan's own dispatches [C-7.7]. */
import type { Emergency, SiteSetpoint } from '../../../protocol/command.ts';
import type { Turn } from '../../object/turn.ts';
import { isOpen, subjectOf } from '../command/commands.ts';
import { emergencyKind } from '../command/kind/emergency.ts';
import { siteSetpointKind } from '../command/kind/site-setpoint.ts';
import {
  CommandOwner,
  type CommandOwnerHost,
  type NewlyAccepted,
  type Outlook,
  type Recorded,
} from '../command/owner.ts';
import type { CommandOutcome, CommandRow } from '../command/rows.ts';
import { DEVICE_FAILED, hasEnded, isHeld, type PlannedDispatch } from '../dispatch/dispatch.ts';
import type { Departure, Owner } from '../dispatch/owner.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import type { Refusal } from '../refusal.ts';
import type { Schedules } from '../schedule/schedules.ts';
import { mayName } from '../sight.ts';
import type { Plan } from './plan.ts';
import type { PlanEntry } from './stack.ts';

export interface PlanOwnerHost extends CommandOwnerHost {
  plan: Plan;
}

/**
 * The owner of SITE_SETPOINT. An ack does not complete the command: the verdict does, except for an ack after
 * the window (`Plan.follow`). FAILED ends the command, unless another target has displaced the setpoint.
 */
export class SetpointOwner extends CommandOwner<'SITE_SETPOINT'> {
  readonly carries = 'TARGET';
  readonly #plan: Plan;

  constructor(host: PlanOwnerHost) {
    super('SITE_SETPOINT', siteSetpointKind, host);
    this.#plan = host.plan;
  }

  override outlook(turn: Turn, accepted: NewlyAccepted<SiteSetpoint>): Outlook {
    const entry = entryOf(turn, accepted);
    const isOnTop = this.#plan.state.wouldBeTarget(entry, turn.now);
    const facts = { level: entry.level, isOnTop };
    if (isOnTop) return { waits: false, planFacts: facts };
    const { own, full } = this.#activeTarget(turn, accepted.partnerId);
    return {
      waits: true,
      planFacts: { ...facts, onTop: own },
      ...(own === full ? {} : { fullPlanFacts: { ...facts, onTop: full } }),
    };
  }

  override isOnTop(turn: Turn, sequence: number): boolean {
    const { target } = this.#plan.state.at(turn.now);
    return target.by === 'entry' && target.sequence === sequence;
  }

  override recorded(turn: Turn, command: Recorded<SiteSetpoint>): void {
    this.#plan.enter(turn, { ...entryOf(turn, command), sequence: command.sequence });
  }

  override forget(turn: Turn, sequence: number): void {
    this.#plan.state.remove(turn, sequence);
  }

  override acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    const { dispatches } = this.host;
    if (state === 'FAILED') {
      dispatches.fail(turn, row, null);
      return;
    }
    const command = this.commandOf(row);
    const setpoint = this.payloadOf(command);
    if (isHeld(row.state) && state !== 'RECEIVED') this.host.commands.rows.markAtWork(turn, command.sequence);
    if (isHeld(row.state) || !setpoint) return;
    if (this.#plan.state.entries.find(command.sequence)) {
      dispatches.rows.update(turn, row, { state: 'IN_PROGRESS', due_at_ms: null });
    }
    this.#plan.follow(turn, command, setpoint, state !== 'RECEIVED');
  }

  /** The dispatch of a displaced setpoint has failed: the setpoint waits in the plan, and gets a new one if it returns. */
  override failed(turn: Turn, row: DispatchRow, reason: string | null, why?: Refusal): void {
    if (row.state === 'SENT' && this.#isDisplaced(turn, row))
      this.host.dispatches.rows.delete(turn, row.cmd_id);
    else super.failed(turn, row, reason, why);
  }

  /** A displaced setpoint must not follow the target that displaced it: only its ack is awaited. */
  mayRepeat(turn: Turn, row: DispatchRow): boolean {
    return !this.#isDisplaced(turn, row);
  }

  override deviceGone(turn: Turn, row: DispatchRow, why: Departure): void {
    if (row.state === 'WAITING' || this.host.view(turn).gatewayId === undefined) {
      super.deviceGone(turn, row, why);
      return;
    }
    // The plan sends its target to the gateway that serves instead.
    this.host.dispatches.rows.delete(turn, row.cmd_id);
    if (!this.#isDisplaced(turn, row)) this.#plan.state.forgetSent(turn);
  }

  #isDisplaced(turn: Turn, { command_sequence: sequence }: DispatchRow): boolean {
    return sequence !== null && this.#plan.isDisplaced(turn, sequence);
  }

  protected override commandFailed(turn: Turn, command: CommandRow, outcome: CommandOutcome): void {
    // The command had its verdict, which is final: only an alarm can report that the setpoint is no longer active.
    if (!isOpen(command) && this.#plan.state.entries.find(command.sequence)) {
      this.host.events.dropped(turn, subjectOf(command), outcome.reason);
    }
    super.commandFailed(turn, command, outcome);
  }

  /**
   * The target that is active instead of the new setpoint: that of another command, or the mode in force. Of another
   * partner's command the setpoint's partner reads only what it is [C-15.1].
   */
  #activeTarget(turn: Turn, partnerId: string): { own: object; full: object } {
    const { target } = this.#plan.state.at(turn.now);
    if (target.by === 'mode') return { own: target, full: target };
    const command = this.host.commands.find(target.sequence);
    const slot = target.by === 'slot' ? { slotIndex: target.slotIndex } : {};
    const full = { by: target.by, commandId: command?.id, ...slot };
    return { own: command && mayName(partnerId, command.partner_id) ? full : { by: target.by }, full };
  }
}

/** The plan entry of a new setpoint. It begins now at the earliest. */
function entryOf(turn: Turn, { payload, window }: NewlyAccepted<SiteSetpoint>): Omit<PlanEntry, 'sequence'> {
  const startsAtMs = Math.max(turn.now, window.notBeforeMs);
  return { level: payload.priority, startsAtMs, endsAtMs: window.validUntilMs };
}

export class EmergencyOwner extends CommandOwner<'EMERGENCY'> {
  readonly carries = 'TARGET';
  override readonly survivesEmergency = true;
  override readonly mayReachAnother = true;
  override readonly isNeverDropped = true;
  readonly #plan: Plan;

  constructor(host: PlanOwnerHost) {
    super('EMERGENCY', emergencyKind, host);
    this.#plan = host.plan;
  }

  override isOnTop(turn: Turn, sequence: number): boolean {
    const { target } = this.#plan.state.at(turn.now);
    return target.by === 'emergency' && target.sequence === sequence;
  }

  override recorded(turn: Turn, command: Recorded<Emergency>): void {
    super.recorded(turn, command);
    const { sequence, payload, planned } = command;
    this.host.commands.rows.noteEmergency(turn, sequence);
    const deviceIds = planned.map(({ deviceId }) => deviceId);
    this.#plan.beginEmergency(turn, { sequence, type: payload.type }, deviceIds);
  }

  override sending(turn: Turn, row: DispatchRow): void {
    const isGateways = row.device_id === this.host.view(turn).gatewayId;
    if (!isGateways || row.command_sequence === null) return;
    this.#plan.state.overrule(turn, { by: 'emergency', sequence: row.command_sequence });
  }

  protected override namesOf({ device_id: deviceId }: DispatchRow): readonly string[] {
    return [deviceId];
  }
}

interface PlanDispatchHost extends PlanOwnerHost {
  schedules: Schedules;
}

/** The plan's own dispatches: a slot, the mode in force, a repeated emergency. No command waits for their acks. */
export class PlanOwner implements Owner {
  readonly carries = 'TARGET';
  readonly survivesEmergency = true;
  readonly mayReachAnother = true;
  readonly isNeverDropped = true;
  readonly #host: PlanDispatchHost;

  constructor(host: PlanDispatchHost) {
    this.#host = host;
  }

  acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    const { dispatches, plan, schedules } = this.#host;
    const { sent } = plan.state;
    if (state === 'FAILED') this.failed(turn, row, null);
    else if (sent?.by === 'slot') {
      schedules.noteTakenSlot(turn, sent.sequence);
      if (hasEnded(state)) dispatches.rows.delete(turn, row.cmd_id);
      // The slot counts as taken. The plant may still answer FAILED, but the dispatch has no deadline for an
      // answer.
      else if (row.due_at_ms !== null) dispatches.rows.update(turn, row, { state, due_at_ms: null });
    } else if (hasEnded(state)) dispatches.rows.deleteOfOwner(turn, 'PLAN');
    else dispatches.holdForResult(turn, row, state);
  }

  /** A slot that the plant rejected or never acknowledged is skipped. */
  failed(turn: Turn, _row: DispatchRow, reason: string | null): void {
    const { dispatches, plan, schedules } = this.#host;
    dispatches.rows.deleteOfOwner(turn, 'PLAN');
    const { sent } = plan.state;
    if (sent?.by !== 'slot' || (reason !== null && reason !== 'NO_ACK')) return;
    schedules.skipFailed(turn, sent, reason ?? DEVICE_FAILED);
  }

  /** A waiting dispatch of the plan is sent to the gateway that serves now. */
  replan(turn: Turn, { action, payload: payloadText }: DispatchRow): PlannedDispatch[] {
    const { gatewayId } = this.#host.view(turn);
    return gatewayId === undefined ? [] : [{ deviceId: gatewayId, action, payloadText, items: [] }];
  }

  deviceGone(turn: Turn, row: DispatchRow): void {
    const { dispatches } = this.#host;
    if (row.state !== 'WAITING') dispatches.rows.delete(turn, row.cmd_id);
    else if (row.not_before_ms <= turn.now) dispatches.sendWaiting(turn, row.cmd_id);
  }
}
