/**
 * The stored plan of a site: the entries of the stack, the active emergency, the target that the plant was sent last,
 * and the devices that are still under an emergency. A change that can alter the target calls `touch()`; `plan.ts` then
 * applies the plan at the end of the turn.
 */
import type { OperatingMode } from '../../../protocol/enums.ts';
import { earliest } from '../../object/agenda.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { ConfigurationState } from '../config/state.ts';
import type { ScheduleRows } from '../schedule/rows.ts';
import type { ActiveEmergency } from '../site-view.ts';
import { Fact, putIn, type SiteFact } from '../stored.ts';
import {
  isAlreadySent,
  isOver,
  nextChangeMs,
  type PlanEntry,
  type Sent,
  type Stack,
  stackAt,
  type Target,
  targetOf,
} from './stack.ts';

/** A time in which the plant followed a setpoint, epoch ms: [from, to). */
export type Span = readonly [fromMs: number, toMs: number];

export interface StoredEntry extends PlanEntry {
  /** When the command's verdict is due; null before execution starts and after the verdict. */
  readonly verdictAtMs: number | null;
  /** Since when the plant follows the setpoint: the ack of its current dispatch. Null while it does not. */
  readonly obeyedSinceMs: number | null;
  /** Earlier times in which the plant followed the setpoint, for the verdict. */
  readonly spans: readonly Span[];
}

/** The fields of an entry that can change. */
type EntryChange = Partial<Pick<StoredEntry, 'verdictAtMs' | 'obeyedSinceMs' | 'spans'>>;

/** How many changes of the plan a look ahead passes: more than a schedule has slots. */
const MOST_LOOKS = 1_000;

interface StoredPlan {
  emergency?: ActiveEmergency | undefined;
  /** The target that the plant was sent last. */
  sent?: Sent | undefined;
  /** See `SiteView.unreleased`; absent: none. */
  unreleased?: readonly string[];
}

export class PlanState {
  readonly entries: PlanEntries;
  readonly #stored: Fact<StoredPlan>;
  readonly #configuration: ConfigurationState;
  readonly #schedules: ScheduleRows;
  readonly #changed: () => void;
  #isChanged = false;

  /** `changed`: called when anything here has changed. */
  constructor(
    sql: Sql,
    values: KeyValues<SiteFact>,
    configuration: ConfigurationState,
    schedules: ScheduleRows,
    changed: () => void,
  ) {
    this.entries = new PlanEntries(sql);
    this.#stored = new Fact<StoredPlan>(values, 'plan', {});
    this.#configuration = configuration;
    this.#schedules = schedules;
    this.#changed = changed;
  }

  get emergency(): ActiveEmergency | undefined {
    return this.#stored.value.emergency;
  }

  get sent(): Sent | undefined {
    return this.#stored.value.sent;
  }

  get unreleased(): readonly string[] {
    return this.#stored.value.unreleased ?? [];
  }

  /** Notes that something that the plan depends on has changed: the plan is applied at the end of this turn. */
  touch(): void {
    this.#isChanged = true;
    this.#changed();
  }

  takeChange(): boolean {
    const isChanged = this.#isChanged;
    this.#isChanged = false;
    return isChanged;
  }

  /** The stack now, its target, and whether the plant was sent that target. */
  at(now: number): Stack<StoredEntry> & { target: Target; isSent: boolean } {
    const stack = stackAt(this.entries.all(), now);
    const target = this.#targetOf(stack.top, now);
    return { ...stack, target, isSent: isAlreadySent(this.#stored.value.sent, target) };
  }

  /** Whether a setpoint that is recorded now would be the target. */
  wouldBeTarget(candidate: Omit<PlanEntry, 'sequence'>, now: number): boolean {
    const sequence = Number.POSITIVE_INFINITY;
    const { top } = stackAt<PlanEntry>([...this.entries.all(), { ...candidate, sequence }], now);
    const target = this.#targetOf(top, now);
    return target.by === 'entry' && target.sequence === sequence;
  }

  /**
   * When a setpoint of the plan becomes the target, as far as the plan is known now: later commands are not. Undefined: its
   * window ends before, or an emergency is active.
   */
  becomesTargetAt(sequence: number, now: number): number | undefined {
    const all = this.entries.all();
    const own = this.entries.find(sequence);
    let atMs = now;
    for (let looks = 0; own && looks < MOST_LOOKS; looks++) {
      const target = this.#targetOf(stackAt(all, atMs).top, atMs);
      if (target.by === 'entry' && target.sequence === sequence) return atMs;
      const next = earliest([nextChangeMs(all, atMs), this.#schedules.activeSlot(atMs)?.endsAtMs]);
      if (next === undefined || next <= atMs || isOver(own, next)) return undefined;
      atMs = next;
    }
    return undefined;
  }

  /** The times in which the plant has followed a setpoint that is in the plan. */
  spansOf(sequence: number, now: number): readonly Span[] {
    const entry = this.entries.find(sequence);
    return entry ? followedUntil(entry, now) : [];
  }

  add(turn: Turn, entry: PlanEntry): void {
    this.entries.insert(turn, entry);
    this.touch();
  }

  remove(turn: Turn, sequence: number): void {
    if (this.entries.delete(turn, sequence)) this.touch();
  }

  /**
   * Makes an emergency active. The plan sends nothing: the emergency has its own dispatches. `deviceIds`: their
   * devices, and those that are still under an earlier emergency.
   */
  hold(turn: Turn, emergency: ActiveEmergency, deviceIds: readonly string[]): void {
    const sent = { by: 'emergency' as const, sequence: emergency.sequence };
    this.#stored.set(turn, { emergency, sent, unreleased: deviceIds });
    this.touch();
  }

  /** The device has acknowledged a mode. */
  release(turn: Turn, deviceId: string): void {
    if (!this.unreleased.includes(deviceId)) return;
    const unreleased = this.unreleased.filter((one) => one !== deviceId);
    this.#stored.set(turn, { ...this.#stored.value, unreleased });
  }

  /**
   * A mode or a repeated emergency is sent: either ends a setpoint at the gateway, which cannot know that the setpoint is
   * still active. A mode that is not acknowledged does not end an active emergency.
   */
  overrule(turn: Turn, by: Exclude<Sent, { by: 'entry' | 'slot' | 'unknown' }>): void {
    const { sent } = this.#stored.value;
    const isSetpoint = sent?.by === 'entry' || sent?.by === 'slot';
    if (sent?.by === 'emergency' || (by.by === 'emergency' && !isSetpoint)) return;
    this.noteSent(turn, by);
    this.touch();
  }

  /** The plant has acknowledged a mode, which ends an earlier emergency. */
  takeMode(turn: Turn, sequence: number, mode: OperatingMode): void {
    const { emergency, sent } = this.#stored.value;
    if (emergency && emergency.sequence > sequence) return;
    const isLast =
      sent?.by === 'unanswered mode' ? sent.sequence === sequence : sent?.by === 'emergency' && !sent.isAgain;
    const { unreleased } = this;
    this.#stored.set(turn, { sent: isLast ? { by: 'mode', mode } : sent, unreleased });
    this.touch();
  }

  /**
   * Called when a mode failed. If it was sent last and is not in force, it is not known what the plant follows,
   * so the target is sent again.
   */
  loseMode(turn: Turn, sequence: number): void {
    const { sent } = this.#stored.value;
    if (sent?.by === 'unanswered mode' && sent.sequence === sequence) this.forgetSent(turn);
  }

  /** Called when the plant may no longer follow the target that was sent last: the target is sent again. */
  forgetSent(turn: Turn): void {
    this.noteSent(turn, { by: 'unknown' });
    this.touch();
  }

  noteSent(turn: Turn, sent: Sent): void {
    this.#changed();
    this.#stored.set(turn, { ...this.#stored.value, sent });
  }

  /**
   * When the plan must be applied next: `now` if a boundary has passed since it was applied last, or its target
   * is unsent.
   */
  dueMs(now: number): number | undefined {
    const { over, replaced, isSent } = this.at(now);
    if (over.length + replaced.length > 0 || !isSent) return now;
    const entries = this.entries.all();
    const isMode = this.#stored.value.sent?.by === 'mode';
    return earliest([
      nextChangeMs(entries, now),
      ...entries.map(({ verdictAtMs }) => verdictAtMs),
      isMode ? this.#configuration.overrideEndsAtMs(now) : undefined,
      this.#schedules.dueMs(now),
    ]);
  }

  #targetOf(top: PlanEntry | undefined, now: number): Target {
    const slot = this.#schedules.activeSlot(now);
    return targetOf(top, this.#stored.value.emergency, slot, this.#configuration.operatingMode(now));
  }
}

/** The times in which the plant has followed the setpoint of an entry, up to now. */
export function followedUntil({ spans, obeyedSinceMs }: StoredEntry, now: number): readonly Span[] {
  return obeyedSinceMs === null ? spans : [...spans, [obeyedSinceMs, now]];
}

/** The entries of the stack: one small row each, all in memory. */
class PlanEntries {
  readonly #sql: Sql;
  #bySequence: Map<number, StoredEntry> | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Oldest first. A rolled-back turn may leave the map in another order. */
  all(): StoredEntry[] {
    return [...this.#entries().values()].sort((one, other) => one.sequence - other.sequence);
  }

  find(sequence: number): StoredEntry | undefined {
    return this.#entries().get(sequence);
  }

  insert(turn: Turn, entry: PlanEntry): void {
    const { sequence, level, startsAtMs, endsAtMs } = entry;
    putIn(turn, this.#entries(), sequence, { ...entry, verdictAtMs: null, obeyedSinceMs: null, spans: [] });
    const columns = { command_sequence: sequence, level, starts_at_ms: startsAtMs, ends_at_ms: endsAtMs };
    turn.insert('plan_entry', columns);
  }

  update(turn: Turn, entry: StoredEntry, change: EntryChange): void {
    const next = { ...entry, ...change };
    putIn(turn, this.#entries(), entry.sequence, next);
    turn.write(
      'UPDATE plan_entry SET verdict_at_ms = ?, obeyed_since_ms = ?, spans = ? WHERE command_sequence = ?',
      next.verdictAtMs,
      next.obeyedSinceMs,
      JSON.stringify(next.spans),
      entry.sequence,
    );
  }

  /** Returns false if the entry does not exist. */
  delete(turn: Turn, sequence: number): boolean {
    if (!this.find(sequence)) return false;
    putIn(turn, this.#entries(), sequence, undefined);
    turn.write('DELETE FROM plan_entry WHERE command_sequence = ?', sequence);
    return true;
  }

  #entries(): Map<number, StoredEntry> {
    this.#bySequence ??= new Map(
      this.#sql
        .all<Omit<StoredEntry, 'spans'> & { spans: string }>(
          `SELECT command_sequence AS sequence, level, starts_at_ms AS startsAtMs, ends_at_ms AS endsAtMs,
             verdict_at_ms AS verdictAtMs, obeyed_since_ms AS obeyedSinceMs, spans FROM plan_entry
           ORDER BY command_sequence`,
        )
        .map((row) => [row.sequence, { ...row, spans: JSON.parse(row.spans) }]),
    );
    return this.#bySequence;
  }
}
