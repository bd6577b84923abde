/**
 * The plan of a site as it is kept: the entries of the stack, an emergency that holds, and what the plant was told
 * last; with them the slots of its schedules. What follows is in `settle.ts`, which runs at the end of every turn that
 * changed something here.
 */
import type { OperatingMode } from '../../../protocol/enums.ts';
import { earliest } from '../../object/agenda.ts';
import type { Facts } from '../../object/facts.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { SiteConfiguration } from '../config/configuration.ts';
import type { ScheduleRows } from '../schedule/rows.ts';
import { type KeptEntry, PlanEntries } from './rows.ts';
import {
  type HeldEmergency,
  nextChangeMs,
  type PlanEntry,
  type Standing,
  saysTheSame,
  standingAt,
  type Target,
  type Told,
  targetOf,
} from './stack.ts';

interface KeptPlan {
  emergency?: HeldEmergency | undefined;
  /** What the plant was told last. */
  told?: Told | undefined;
}

export class Plan {
  readonly entries: PlanEntries;
  readonly #facts: Facts<'plan'>;
  readonly #configuration: SiteConfiguration;
  readonly #schedules: ScheduleRows;
  #kept: KeptPlan;
  #isChanged = false;

  constructor(sql: Sql, facts: Facts<'plan'>, configuration: SiteConfiguration, schedules: ScheduleRows) {
    this.entries = new PlanEntries(sql);
    this.#facts = facts;
    this.#configuration = configuration;
    this.#schedules = schedules;
    this.#kept = facts.get<KeptPlan>('plan') ?? {};
  }

  get emergency(): HeldEmergency | undefined {
    return this.#kept.emergency;
  }

  get told(): Told | undefined {
    return this.#kept.told;
  }

  /** Something that the plan depends on has changed in this turn: it is settled at the turn's end. */
  touch(): void {
    this.#isChanged = true;
  }

  takeChange(): boolean {
    const isChanged = this.#isChanged;
    this.#isChanged = false;
    return isChanged;
  }

  /** The stack now, what the plant is to be told by it, and whether it has to be told. */
  at(now: number): Standing<KeptEntry> & { target: Target; isTold: boolean } {
    const standing = standingAt(this.entries.all(), now);
    const target = this.#targetOf(standing.top, now);
    return { ...standing, target, isTold: saysTheSame(this.#kept.told, target) };
  }

  /** Whether a setpoint that was recorded now would be what the plant is told. */
  wouldBeTold(candidate: Omit<PlanEntry, 'sequence'>, now: number): boolean {
    const sequence = Number.POSITIVE_INFINITY;
    const { top } = standingAt<PlanEntry>([...this.entries.all(), { ...candidate, sequence }], now);
    const target = this.#targetOf(top, now);
    return target.by === 'entry' && target.sequence === sequence;
  }

  add(turn: Turn, entry: PlanEntry): void {
    this.entries.insert(turn, entry);
    this.touch();
  }

  remove(turn: Turn, sequence: number): void {
    if (this.entries.delete(turn, sequence)) this.touch();
  }

  /** The emergency's own dispatches tell the plant. */
  hold(turn: Turn, emergency: HeldEmergency): void {
    this.#keep(turn, { emergency, told: { by: 'emergency', sequence: emergency.sequence } });
    this.touch();
  }

  /**
   * An emergency that goes out once more ends a setpoint at its gateway, and so does a mode: no gateway can know that it
   * stands on. An emergency that holds is not over by a mode that nobody has acknowledged.
   */
  overrule(turn: Turn, by: Exclude<Told, { by: 'entry' | 'slot' | 'unknown' }>): void {
    const { told } = this.#kept;
    const isSetpoint = told?.by === 'entry' || told?.by === 'slot';
    if (told?.by === 'emergency' || (by.by === 'emergency' && !isSetpoint)) return;
    this.noteTold(turn, by);
    this.touch();
  }

  /** The plant has taken a mode: it ends an emergency that came before it. */
  takeMode(turn: Turn, sequence: number, mode: OperatingMode): void {
    const { emergency, told } = this.#kept;
    if (emergency && emergency.sequence > sequence) return;
    const isLast =
      told?.by === 'unanswered mode' ? told.sequence === sequence : told?.by === 'emergency' && !told.isAgain;
    this.#keep(turn, { told: isLast ? { by: 'mode', mode } : told });
    this.touch();
  }

  /** A mode that nobody acknowledged has ended: what the plant does is not known, it is told anew. */
  loseMode(turn: Turn, sequence: number): void {
    const { told } = this.#kept;
    if (told?.by === 'unanswered mode' && told.sequence === sequence) this.forgetTold(turn);
  }

  /** What the plant was told, it may not do: whatever the plan says is told anew. */
  forgetTold(turn: Turn): void {
    this.noteTold(turn, { by: 'unknown' });
    this.touch();
  }

  noteTold(turn: Turn, told: Told): void {
    this.#keep(turn, { ...this.#kept, told });
  }

  /** When it must be settled: now, if a boundary has passed unseen. */
  dueMs(now: number): number | undefined {
    const { over, replaced, isTold } = this.at(now);
    if (over.length + replaced.length > 0 || !isTold) return now;
    const entries = this.entries.all();
    const isMode = this.#kept.told?.by === 'mode';
    return earliest([
      nextChangeMs(entries, now),
      ...entries.map(({ verdictAtMs }) => verdictAtMs),
      isMode ? this.#configuration.overrideEndsAtMs(now) : undefined,
      // Not its slots alone, also what else a schedule is due for.
      this.#schedules.dueMs(now),
    ]);
  }

  #targetOf(top: PlanEntry | undefined, now: number): Target {
    const slot = this.#schedules.standing(now);
    return targetOf(top, this.#kept.emergency, slot, this.#configuration.operatingMode(now));
  }

  #keep(turn: Turn, kept: KeptPlan): void {
    const before = this.#kept;
    turn.undo(() => {
      this.#kept = before;
    });
    this.#kept = kept;
    this.#facts.set(turn, 'plan', kept);
  }
}
