/** The owner of DEVICE_COMMAND: a batch counts toward the limits of its batteries until it fails [C-2.3]. */
import type { DeviceCommand } from '../../../protocol/command.ts';
import type { Turn } from '../../object/turn.ts';
import { targetsOf } from '../dispatch/dispatch.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import type { Refusal } from '../refusal.ts';
import type { BatteryDemands } from './battery-demands.ts';
import { batteryDemands, deviceCommandKind } from './kind/device-command.ts';
import { CommandOwner, type CommandOwnerHost, type Recorded } from './owner.ts';

export class BatchOwner extends CommandOwner<'DEVICE_COMMAND'> {
  readonly #demands: BatteryDemands;

  constructor(host: CommandOwnerHost, demands: BatteryDemands) {
    super('DEVICE_COMMAND', deviceCommandKind, host);
    this.#demands = demands;
  }

  override recorded(turn: Turn, command: Recorded<DeviceCommand>): void {
    super.recorded(turn, command);
    this.#demands.note(turn, command.sequence, batteryDemands(command.items, command.view));
  }

  override acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    if (state === 'FAILED') this.#forget(turn, row);
    super.acked(turn, row, state);
  }

  override failed(turn: Turn, row: DispatchRow, reason: string | null, why?: Refusal): void {
    this.#forget(turn, row);
    super.failed(turn, row, reason, why);
  }

  protected override namesOf(row: DispatchRow): readonly string[] {
    const targets = targetsOf(row);
    return targets.length > 0 ? targets : [row.device_id];
  }

  #forget(turn: Turn, row: DispatchRow): void {
    this.#demands.forget(turn, row.command_sequence ?? 0, targetsOf(row));
  }
}
