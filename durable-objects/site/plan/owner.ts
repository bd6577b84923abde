/** The owners of the plan's commands (setpoint, mode, emergency) and of the plan's own dispatches [C-7.7]. */
import type { Emergency, ModeChange, SiteSetpoint } from '../../../protocol/command.ts';
import type { OperatingMode } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { Turn } from '../../object/turn.ts';
import { isOpen, subjectOf } from '../command/commands.ts';
import { emergencyKind } from '../command/kind/emergency.ts';
import { modeChangeKind } from '../command/kind/mode-change.ts';
import { siteSetpointKind } from '../command/kind/site-setpoint.ts';
import {
  CommandOwner,
  type CommandOwnerHost,
  type NewlyAccepted,
  type Outlook,
  type Recorded,
} from '../command/owner.ts';
import type { CommandOutcome, CommandRow } from '../command/rows.ts';
import type { ConfigurationState } from '../config/state.ts';
import { DEVICE_FAILED, hasEnded, isHeld, type PlannedDispatch } from '../dispatch/dispatch.ts';
import type { Departure, Owner } from '../dispatch/owner.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import type { Schedules } from '../schedule/schedules.ts';
import type { Plan } from './plan.ts';
import type { PlanEntry } from './stack.ts';

export interface PlanOwnerHost extends CommandOwnerHost {
  plan: Plan;
}

/** A setpoint is active in the plan, whatever its gateway answers except FAILED, and its verdict ends the command. */
export class SetpointOwner extends CommandOwner<'SITE_SETPOINT'> {
  readonly #plan: Plan;

  constructor(host: PlanOwnerHost) {
    super('SITE_SETPOINT', siteSetpointKind, host);
    this.#plan = host.plan;
  }

  override outlook(turn: Turn, accepted: NewlyAccepted<SiteSetpoint>): Outlook {
    const entry = entryOf(turn, accepted);
    const isOnTop = this.#plan.state.wouldBeTarget(entry, turn.now);
    const onTop = isOnTop ? {} : { onTop: this.#activeTarget(turn) };
    return { waits: !isOnTop, planFacts: { level: entry.level, isOnTop, ...onTop } };
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
    if (isHeld(row.state) || !setpoint) return;
    if (this.#plan.state.entries.find(command.sequence)) {
      dispatches.rows.update(turn, row, { state: 'IN_PROGRESS', due_at_ms: null });
    }
    this.#plan.follow(turn, command, setpoint);
  }

  override deviceGone(turn: Turn, row: DispatchRow, why: Departure): void {
    if (row.state === 'WAITING' || this.host.view(turn).gatewayId === undefined) {
      super.deviceGone(turn, row, why);
      return;
    }
    // The plan sends its target to the gateway that serves instead.
    this.host.dispatches.rows.delete(turn, row.cmd_id);
    this.#plan.state.forgetSent(turn);
  }

  protected override commandFailed(turn: Turn, command: CommandRow, outcome: CommandOutcome): void {
    // The command had its verdict, which is final: only an alarm can report that the setpoint is no longer active.
    if (!isOpen(command) && this.#plan.state.entries.find(command.sequence)) {
      this.host.events.dropped(turn, subjectOf(command), outcome.reason);
    }
    super.commandFailed(turn, command, outcome);
  }

  /** What the plant should do instead of the new setpoint: another command's, or the mode in force. */
  #activeTarget(turn: Turn): Record<string, unknown> {
    const { target } = this.#plan.state.at(turn.now);
    if (target.by === 'mode') return target;
    const commandId = this.host.commands.find(target.sequence)?.id;
    return target.by === 'slot'
      ? { by: 'slot', commandId, slotIndex: target.slotIndex }
      : { by: target.by, commandId };
  }
}

/** The place of a setpoint in the plan: it begins when it is recorded, at the earliest. */
function entryOf(turn: Turn, { payload, window }: NewlyAccepted<SiteSetpoint>): Omit<PlanEntry, 'sequence'> {
  const startsAtMs = Math.max(turn.now, window.notBeforeMs);
  return { level: payload.priority, startsAtMs, endsAtMs: window.validUntilMs };
}

export class EmergencyOwner extends CommandOwner<'EMERGENCY'> {
  override readonly survivesEmergency = true;
  override readonly mayReachAnother = true;
  override readonly isNeverDropped = true;
  readonly #plan: Plan;

  constructor(host: PlanOwnerHost) {
    super('EMERGENCY', emergencyKind, host);
    this.#plan = host.plan;
  }

  override recorded(turn: Turn, command: Recorded<Emergency>): void {
    super.recorded(turn, command);
    const { sequence, id, payload } = command;
    this.host.commands.rows.noteEmergency(turn, sequence);
    this.#plan.beginEmergency(turn, { sequence, type: payload.type }, id);
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

export interface ModeOwnerHost extends PlanOwnerHost {
  configuration: ConfigurationState;
}

export class ModeOwner extends CommandOwner<'MODE_CHANGE'> {
  readonly #host: ModeOwnerHost;

  constructor(host: ModeOwnerHost) {
    super('MODE_CHANGE', modeChangeKind, host);
    this.#host = host;
  }

  override forget(turn: Turn, sequence: number): void {
    this.#host.plan.state.loseMode(turn, sequence);
  }

  override sending(turn: Turn, row: DispatchRow): void {
    const { command_sequence: sequence } = row;
    if (sequence === null || row.device_id !== this.host.view(turn).gatewayId) return;
    const { state } = this.#host.plan;
    const { mode } = JSON.parse(row.payload) as { mode: OperatingMode };
    // A mode that the gateway has acknowledged and gets again is in force.
    state.overrule(
      turn,
      isHeld(row.state) ? { by: 'mode', mode } : { by: 'unanswered mode', sequence, mode },
    );
    // The plan must not repeat its previous mode after this one.
    if (state.sent?.by === 'unanswered mode') this.host.dispatches.rows.deleteOfOwner(turn, 'PLAN');
  }

  /**
   * Without validUntil the mode becomes that of the site and ends an override; with validUntil it is the override
   * [C-7.7].
   */
  protected override started(turn: Turn, command: CommandRow, payload: ModeChange): void {
    const { plan, configuration, dispatches } = this.#host;
    const { mode, reason, validUntil } = payload;
    const { id: commandId, sequence, key_prefix: setBy } = command;
    if (validUntil === undefined) configuration.setMode(turn, mode);
    else {
      const validFrom = formatInstant(turn.now);
      const override = { mode, reason: reason ?? null, validFrom, validUntil, commandId, setBy };
      configuration.overrideMode(turn, override);
    }
    plan.state.takeMode(turn, sequence, mode);
    if (plan.state.emergency) return;
    this.#supersedeOlder(turn, sequence, commandId);
    // Schedules waited for the end of the emergency.
    dispatches.sendAllWaiting(turn, 'SCHEDULE');
  }

  /** Ends older modes and emergencies that were not acknowledged: they are not sent any more. */
  #supersedeOlder(turn: Turn, sequence: number, by: string): void {
    const { commands, dispatches } = this.host;
    dispatches.rows.deleteOfOwner(turn, 'PLAN');
    const open = [...dispatches.rows.ofOwner('MODE_CHANGE'), ...dispatches.rows.ofOwner('EMERGENCY')];
    const older = open.flatMap(({ command_sequence: one }) => (one !== null && one < sequence ? [one] : []));
    for (const one of older.sort((left, right) => left - right)) {
      commands.fail(turn, one, `SUPERSEDED by ${by}`);
    }
  }
}

/** The plan's own dispatches: a slot, the mode in force, a repeated emergency. No command waits for their acks. */
export class PlanOwner implements Owner {
  readonly survivesEmergency = true;
  readonly mayReachAnother = true;
  readonly isNeverDropped = true;
  readonly #host: PlanOwnerHost & { schedules: Schedules };

  constructor(host: PlanOwnerHost & { schedules: Schedules }) {
    this.#host = host;
  }

  acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    const { dispatches, plan, schedules } = this.#host;
    const { sent } = plan.state;
    if (state === 'FAILED') this.failed(turn, row, null);
    else if (sent?.by === 'slot') {
      schedules.noteTakenSlot(turn, sent.sequence);
      if (hasEnded(state)) dispatches.rows.delete(turn, row.cmd_id);
      // The plant may still answer FAILED, but no answer is awaited.
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

  /** A waiting dispatch of the plan goes to the gateway that serves now. */
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
