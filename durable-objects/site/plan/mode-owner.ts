/** The owners of mode changes: for the gateway, which follows the mode, and for devices that leave an emergency [C-7.7]. */
import type { ModeChange } from '../../../protocol/command.ts';
import type { OperatingMode } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { Turn } from '../../object/turn.ts';
import { modeChangeKind } from '../command/kind/mode-change.ts';
import { CommandOwner, type Recorded } from '../command/owner.ts';
import type { CommandRow } from '../command/rows.ts';
import type { ConfigurationState } from '../config/state.ts';
import { isHeld, type PlannedDispatch } from '../dispatch/dispatch.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import type { Refusal } from '../refusal.ts';
import type { PlanOwnerHost } from './owner.ts';
import type { Plan } from './plan.ts';

export interface ModeOwnerHost extends PlanOwnerHost {
  configuration: ConfigurationState;
}

export class ModeOwner extends CommandOwner<'MODE_CHANGE'> {
  readonly carries = 'MODE';
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

  /** The first dispatch is the gateway's; each further one releases a device from an emergency [C-7.7]. */
  override recorded(turn: Turn, command: Recorded<ModeChange>): void {
    const { planned, sequence, window } = command;
    super.recorded(turn, { ...command, planned: planned.slice(0, 1) });
    const from = { owner: 'RELEASE', commandSequence: sequence } as const;
    for (const one of planned.slice(1)) this.host.dispatches.create(turn, from, one, window);
  }

  /** The gateway's first ack brings the mode into force. */
  override acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    if (state !== 'FAILED' && !isHeld(row.state)) {
      this.#host.plan.state.release(turn, row.device_id);
      const command = this.commandOf(row);
      const payload = this.payloadOf(command);
      if (payload) this.#takeEffect(turn, command, payload);
    }
    super.acked(turn, row, state);
  }

  override failed(turn: Turn, row: DispatchRow, reason: string | null, why?: Refusal): void {
    this.#host.plan.state.loseMode(turn, row.command_sequence ?? 0);
    super.failed(turn, row, reason, why);
  }

  /**
   * Without validUntil the mode becomes that of the site and ends an override; with validUntil it is the override
   * [C-7.7].
   */
  #takeEffect(turn: Turn, command: CommandRow, payload: ModeChange): void {
    const { plan, configuration, dispatches } = this.#host;
    const { mode, reason, validUntil } = payload;
    const { id: commandId, sequence, key_prefix: keyPrefix, partner_id: partnerId } = command;
    // A person has no key.
    const setBy = keyPrefix === '' ? null : keyPrefix;
    if (validUntil === undefined) configuration.setMode(turn, mode);
    else {
      const validFrom = formatInstant(turn.now);
      const override = { mode, reason: reason ?? null, validFrom, validUntil, commandId, setBy, partnerId };
      configuration.overrideMode(turn, override);
    }
    plan.state.takeMode(turn, sequence, mode);
    if (plan.state.emergency) return;
    this.#supersedeOlder(turn, sequence);
    // Schedules waited for the end of the emergency.
    dispatches.sendAllWaiting(turn, 'SCHEDULE');
  }

  /** Ends older mode changes and emergencies that still have a dispatch: they are not sent any more. */
  #supersedeOlder(turn: Turn, sequence: number): void {
    const { commands, dispatches } = this.host;
    dispatches.rows.deleteOfOwner(turn, 'PLAN');
    const open = (['MODE_CHANGE', 'RELEASE', 'EMERGENCY'] as const).flatMap((owner) =>
      dispatches.rows.ofOwner(owner),
    );
    const older = open.flatMap(({ command_sequence: one }) => (one !== null && one < sequence ? [one] : []));
    for (const one of [...new Set(older)].sort((left, right) => left - right)) {
      commands.supersede(turn, one, sequence);
    }
  }
}

/** A mode change to a device that an emergency was sent to: it changes nothing on the site, but the command waits for it. */
export class ReleaseOwner extends CommandOwner<'MODE_CHANGE'> {
  readonly #plan: Plan;

  constructor(host: PlanOwnerHost) {
    super('MODE_CHANGE', modeChangeKind, host);
    this.#plan = host.plan;
  }

  override acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    if (state !== 'FAILED') this.#plan.state.release(turn, row.device_id);
    super.acked(turn, row, state);
  }

  /** The device that must be released is the only one that may get it. */
  override replan(): PlannedDispatch[] {
    return [];
  }

  protected override namesOf({ device_id: deviceId }: DispatchRow): readonly string[] {
    return [deviceId];
  }
}
