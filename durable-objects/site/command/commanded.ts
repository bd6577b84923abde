/**
 * What batteries have been commanded and still do, as far as anybody knows: a batch is held to a site's limits with
 * what was commanded before it [C-2.3], [C-7.4]. An emergency ends it all, a failure its own. A mode does not: by that
 * nothing tells a battery to stop.
 */
import type { BatteryLimit } from '../../../protocol/asset.ts';
import type { Facts } from '../../object/facts.ts';
import type { Turn } from '../../object/turn.ts';

/** The power that a battery was asked for, kW, by the limit that it counts against. */
export interface BatteryDemand {
  limit: BatteryLimit;
  powerKw: number;
}

type Commanding = BatteryDemand & { sequence: number };
/** `before`: what it did until then, and does again if this fails. */
type Kept = Commanding & { before?: Commanding | undefined };

export class Commanded {
  readonly #facts: Facts<'commanded'>;
  /** By external id; a battery that was told to rest has a demand of nothing while it could yet fail. */
  #demands: Readonly<Record<string, Kept>>;
  /** The last command that asked a battery for what it does already: it costs no row. */
  readonly #repeated = new Map<string, number>();

  constructor(facts: Facts<'commanded'>) {
    this.#facts = facts;
    this.#demands = facts.get<Record<string, Kept>>('commanded') ?? {};
  }

  get demands(): Readonly<Record<string, BatteryDemand>> {
    return this.#demands;
  }

  /** What a command asks of each battery that it names; undefined: nothing any more. */
  note(turn: Turn, sequence: number, asked: readonly [string, BatteryDemand | undefined][]): void {
    const changed = asked.filter(([id, demand]) => {
      const known = this.#demands[id];
      const isKnown = known ? isSame(known, demand ?? REST) : demand === undefined;
      if (isKnown) this.#repeated.set(id, sequence);
      return !isKnown;
    });
    if (changed.length === 0) return;
    const next = { ...this.#demands };
    for (const [id, demand] of changed) {
      const { before: _older, ...before } = this.#demands[id] ?? { ...REST, sequence: 0 };
      next[id] = { ...(demand ?? REST), sequence, before };
    }
    this.#keep(turn, next);
  }

  /** A command has failed at these batteries: they do what they did before it. */
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
    this.#keep(turn, next);
  }

  clear(turn: Turn): void {
    this.#repeated.clear();
    if (Object.keys(this.#demands).length > 0) this.#keep(turn, {});
  }

  #keep(turn: Turn, demands: Record<string, Kept>): void {
    const before = this.#demands;
    turn.undo(() => {
      this.#demands = before;
    });
    this.#demands = demands;
    this.#facts.set(turn, 'commanded', demands);
  }
}

const REST: BatteryDemand = { limit: 'maxChargeKw', powerKw: 0 };

function isSame(one: BatteryDemand, other: BatteryDemand): boolean {
  return one.powerKw === other.powerKw && (one.limit === other.limit || one.powerKw === 0);
}
