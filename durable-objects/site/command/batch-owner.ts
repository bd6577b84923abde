/**
 * The demands on batteries that are still active, as far as the platform knows: the limits of a site apply to
 * a batch together with earlier commands [C-2.3], [C-7.4]. An emergency ends all demands, and a command that
 * fails ends its own. A mode change ends none, because it does not stop batteries.
 */
import type { DeviceCommand } from '../../../protocol/command.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Turn } from '../../object/turn.ts';
import { targetsOf } from '../dispatch/dispatch.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import type { Refusal } from '../refusal.ts';
import type { BatteryDemand } from '../site-view.ts';
import { Fact, putIn, type SiteFact } from '../stored.ts';
import { batteryDemands, deviceCommandKind } from './kind/device-command.ts';
import { CommandOwner, type CommandOwnerHost, type Recorded } from './owner.ts';

type CommandDemand = BatteryDemand & { sequence: number };
/** `before`: the demand that becomes active again if this command fails. */
type StoredDemand = CommandDemand & { before?: CommandDemand | undefined };

export class BatteryDemands {
  /** By external id. A battery that was commanded to stop has a demand of 0 kW, since that command may still fail. */
  readonly #demands: Fact<Readonly<Record<string, StoredDemand>>>;
  /**
   * The sequence of the last command that repeated a battery's demand, by external id. Only in memory,
   * because a repeated demand writes no row.
   */
  readonly #repeated = new Map<string, number>();

  constructor(values: KeyValues<SiteFact>) {
    this.#demands = new Fact(values, 'batteryDemands', {});
  }

  get all(): Readonly<Record<string, BatteryDemand>> {
    return this.#demands.value;
  }

  /** Records the power that a command asks of each battery; undefined: it asks for no power. */
  note(
    turn: Turn,
    { sequence, partnerId }: { sequence: number; partnerId: string },
    asked: readonly [string, BatteryDemand | undefined][],
  ): void {
    const changed = asked.filter(([id, demand]) => {
      const known = this.#demands.value[id];
      const isKnown = known
        ? isSame(known, demand ?? NONE) && known.partnerId === partnerId
        : demand === undefined;
      if (isKnown) putIn(turn, this.#repeated, id, sequence);
      return !isKnown;
    });
    if (changed.length === 0) return;
    const next = { ...this.#demands.value };
    for (const [id, demand] of changed) {
      const { before: _older, ...before } = this.#demands.value[id] ?? { ...NONE, sequence: 0 };
      next[id] = { ...(demand ?? NONE), partnerId, sequence, before };
    }
    this.#demands.set(turn, next);
  }

  /** A command has failed at these batteries: their earlier demands are active again. */
  forget(turn: Turn, sequence: number, ids: readonly string[]): void {
    const failed = ids.filter(
      (id) => this.#demands.value[id]?.sequence === sequence && (this.#repeated.get(id) ?? 0) <= sequence,
    );
    if (failed.length === 0) return;
    const next = { ...this.#demands.value };
    for (const id of failed) {
      const before = next[id]?.before;
      if (before) next[id] = before;
      else delete next[id];
    }
    this.#demands.set(turn, next);
  }

  clear(turn: Turn): void {
    for (const id of this.#repeated.keys()) putIn(turn, this.#repeated, id, undefined);
    if (Object.keys(this.#demands.value).length > 0) this.#demands.set(turn, {});
  }
}

const NONE: BatteryDemand = { limit: 'maxChargeKw', powerKw: 0 };

function isSame(one: BatteryDemand, other: BatteryDemand): boolean {
  return one.powerKw === other.powerKw && (one.limit === other.limit || one.powerKw === 0);
}

/**
 * The owner of DEVICE_COMMAND: a batch counts toward the site's limits for a battery until it fails there, a
 * later batch replaces its demand or an emergency begins [C-2.3].
 */
export class BatchOwner extends CommandOwner<'DEVICE_COMMAND'> {
  readonly #demands: BatteryDemands;

  constructor(host: CommandOwnerHost, demands: BatteryDemands) {
    super('DEVICE_COMMAND', deviceCommandKind, host);
    this.#demands = demands;
  }

  override recorded(turn: Turn, command: Recorded<DeviceCommand>): void {
    super.recorded(turn, command);
    const asked = batteryDemands(command.items, command.view);
    this.#demands.note(turn, command, asked);
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
