/**
 * The stored plan of a site: the entries of the stack, the active emergency, and the target that the plant was sent
 * last. `plan.ts` acts on it at the end of every turn that changed something here.
 */
import type { OperatingMode } from '../../../protocol/enums.ts';
import { earliest } from '../../object/agenda.ts';
import type { Facts } from '../../object/facts.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { ConfigurationState } from '../config/state.ts';
import type { ScheduleRows } from '../schedule/rows.ts';
import type { ActiveEmergency } from '../site-view.ts';
import { PlanEntries, type StoredEntry } from './rows.ts';
import {
  isAlreadySent,
  nextChangeMs,
  type PlanEntry,
  type Sent,
  type Stack,
  stackAt,
  type Target,
  targetOf,
} from './stack.ts';

interface StoredPlan {
  emergency?: ActiveEmergency | undefined;
  /** The target that the plant was sent last. */
  sent?: Sent | undefined;
}

export class PlanState {
  readonly entries: PlanEntries;
  readonly #facts: Facts<'plan'>;
  readonly #configuration: ConfigurationState;
  readonly #schedules: ScheduleRows;
  #stored: StoredPlan;
  #isChanged = false;

  constructor(sql: Sql, facts: Facts<'plan'>, configuration: ConfigurationState, schedules: ScheduleRows) {
    this.entries = new PlanEntries(sql);
    this.#facts = facts;
    this.#configuration = configuration;
    this.#schedules = schedules;
    this.#stored = facts.get<StoredPlan>('plan') ?? {};
  }

  get emergency(): ActiveEmergency | undefined {
    return this.#stored.emergency;
  }

  get sent(): Sent | undefined {
    return this.#stored.sent;
  }

  /** Something that the plan depends on has changed in this turn: the plan is applied at the turn's end. */
  touch(): void {
    this.#isChanged = true;
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
    return { ...stack, target, isSent: isAlreadySent(this.#stored.sent, target) };
  }

  /** Whether a setpoint that is recorded now would be the target. */
  wouldBeTarget(candidate: Omit<PlanEntry, 'sequence'>, now: number): boolean {
    const sequence = Number.POSITIVE_INFINITY;
    const { top } = stackAt<PlanEntry>([...this.entries.all(), { ...candidate, sequence }], now);
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

  /** An emergency becomes active; its own dispatches go to the plant. */
  hold(turn: Turn, emergency: ActiveEmergency): void {
    this.#store(turn, { emergency, sent: { by: 'emergency', sequence: emergency.sequence } });
    this.touch();
  }

  /**
   * A mode or a repeated emergency is sent: either ends a setpoint at the gateway, which cannot know that the setpoint is
   * still active. A mode that is not acknowledged does not end an active emergency.
   */
  overrule(turn: Turn, by: Exclude<Sent, { by: 'entry' | 'slot' | 'unknown' }>): void {
    const { sent } = this.#stored;
    const isSetpoint = sent?.by === 'entry' || sent?.by === 'slot';
    if (sent?.by === 'emergency' || (by.by === 'emergency' && !isSetpoint)) return;
    this.noteSent(turn, by);
    this.touch();
  }

  /** The plant has acknowledged a mode, which ends an earlier emergency. */
  takeMode(turn: Turn, sequence: number, mode: OperatingMode): void {
    const { emergency, sent } = this.#stored;
    if (emergency && emergency.sequence > sequence) return;
    const isLast =
      sent?.by === 'unanswered mode' ? sent.sequence === sequence : sent?.by === 'emergency' && !sent.isAgain;
    this.#store(turn, { sent: isLast ? { by: 'mode', mode } : sent });
    this.touch();
  }

  /** A mode failed without an ack: the plant may follow anything, so the target is sent again. */
  loseMode(turn: Turn, sequence: number): void {
    const { sent } = this.#stored;
    if (sent?.by === 'unanswered mode' && sent.sequence === sequence) this.forgetSent(turn);
  }

  /** The plant may no longer follow what it was sent: the target is sent again. */
  forgetSent(turn: Turn): void {
    this.noteSent(turn, { by: 'unknown' });
    this.touch();
  }

  noteSent(turn: Turn, sent: Sent): void {
    this.#store(turn, { ...this.#stored, sent });
  }

  /** When the plan must be applied: now, if a boundary has passed since it was. */
  dueMs(now: number): number | undefined {
    const { over, replaced, isSent } = this.at(now);
    if (over.length + replaced.length > 0 || !isSent) return now;
    const entries = this.entries.all();
    const isMode = this.#stored.sent?.by === 'mode';
    return earliest([
      nextChangeMs(entries, now),
      ...entries.map(({ verdictAtMs }) => verdictAtMs),
      isMode ? this.#configuration.overrideEndsAtMs(now) : undefined,
      this.#schedules.dueMs(now),
    ]);
  }

  #targetOf(top: PlanEntry | undefined, now: number): Target {
    const slot = this.#schedules.activeSlot(now);
    return targetOf(top, this.#stored.emergency, slot, this.#configuration.operatingMode(now));
  }

  #store(turn: Turn, next: StoredPlan): void {
    const before = this.#stored;
    turn.undo(() => {
      this.#stored = before;
    });
    this.#stored = next;
    this.#facts.set(turn, 'plan', next);
  }
}
