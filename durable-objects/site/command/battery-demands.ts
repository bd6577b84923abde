/**
 * The demands on batteries that are still active, as far as the platform knows: the limits of a site apply to a batch
 * together with earlier commands [C-2.3], [C-7.4]. An emergency ends all demands, a failed command its own. A mode change
 * ends none, because it does not stop batteries.
 */
import type { Facts } from '../../object/facts.ts';
import type { Turn } from '../../object/turn.ts';
import type { BatteryDemand } from '../site-view.ts';

type CommandDemand = BatteryDemand & { sequence: number };
/** `before`: the demand that becomes active again if this command fails. */
type StoredDemand = CommandDemand & { before?: CommandDemand | undefined };

export class BatteryDemands {
  readonly #facts: Facts<'batteryDemands'>;
  /** By external id. A battery that was commanded to stop has a demand of 0 kW, since that command may still fail. */
  #demands: Readonly<Record<string, StoredDemand>>;
  /** The last command that repeated a battery's demand, by external id: a repeat writes no row. */
  readonly #repeated = new Map<string, number>();

  constructor(facts: Facts<'batteryDemands'>) {
    this.#facts = facts;
    this.#demands = facts.get<Record<string, StoredDemand>>('batteryDemands') ?? {};
  }

  get all(): Readonly<Record<string, BatteryDemand>> {
    return this.#demands;
  }

  /** Records what a command asks of each battery; undefined: nothing. */
  note(turn: Turn, sequence: number, asked: readonly [string, BatteryDemand | undefined][]): void {
    const changed = asked.filter(([id, demand]) => {
      const known = this.#demands[id];
      const isKnown = known ? isSame(known, demand ?? NONE) : demand === undefined;
      if (isKnown) this.#repeated.set(id, sequence);
      return !isKnown;
    });
    if (changed.length === 0) return;
    const next = { ...this.#demands };
    for (const [id, demand] of changed) {
      const { before: _older, ...before } = this.#demands[id] ?? { ...NONE, sequence: 0 };
      next[id] = { ...(demand ?? NONE), sequence, before };
    }
    this.#store(turn, next);
  }

  /** A command has failed at these batteries: their earlier demands are active again. */
  forget(turn: Turn, sequence: number, ids: readonly string[]): void {
    const failed = ids.filter(
      (id) => this.#demands[id]?.sequence === sequence && (this.#repeated.get(id) ?? 0) <= sequence,
    );
    if (failed.length === 0) return;
    const next = { ...this.#demands };
    for (const id of failed) {
      const before = next[id]?.before;
      if (before) next[id] = before;
      else delete next[id];
    }
    this.#store(turn, next);
  }

  clear(turn: Turn): void {
    this.#repeated.clear();
    if (Object.keys(this.#demands).length > 0) this.#store(turn, {});
  }

  #store(turn: Turn, demands: Record<string, StoredDemand>): void {
    const before = this.#demands;
    turn.undo(() => {
      this.#demands = before;
    });
    this.#demands = demands;
    this.#facts.set(turn, 'batteryDemands', demands);
  }
}

const NONE: BatteryDemand = { limit: 'maxChargeKw', powerKw: 0 };

function isSame(one: BatteryDemand, other: BatteryDemand): boolean {
  return one.powerKw === other.powerKw && (one.limit === other.limit || one.powerKw === 0);
}
