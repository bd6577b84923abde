/**
 * Alarms for states: at most one open per type and target. RAISED is sent once when the state begins and
 * CLEARED once when it ends, to every key that may see the plant [C-8.3].
 */
import type { OwnCounts } from '../../figures/counts.ts';
import type { Facts } from '../../object/facts.ts';
import type { Turn } from '../../object/turn.ts';
import type { PlantCopy } from '../../registry/plant-copy.ts';
import { type OpenAlarm, type State, standingAlarmEvents } from './event-rows.ts';
import type { Outbox } from './outbox.ts';

export class StandingAlarms {
  readonly #facts: Facts<'alarms'>;
  readonly #registry: PlantCopy;
  readonly #outbox: Outbox;
  readonly #counts: OwnCounts;
  #open: readonly OpenAlarm[];

  constructor(facts: Facts<'alarms'>, registry: PlantCopy, outbox: Outbox, counts: OwnCounts) {
    this.#facts = facts;
    this.#registry = registry;
    this.#outbox = outbox;
    this.#counts = counts;
    this.#open = facts.get<OpenAlarm[]>('alarms') ?? [];
  }

  /** Takes the current states; sends alarms for those that began or ended. */
  update(turn: Turn, states: readonly State[]): void {
    const begun = states.filter((state) => !this.#open.some((open) => isSame(open, state)));
    const ended = this.#open.filter((open) => !states.some((state) => isSame(open, state)));
    if (begun.length + ended.length === 0) return;
    const { keyIds } = this.#registry;
    const raised = begun.map((state) => ({ ...state, raisedAtMs: turn.now, alarmId: crypto.randomUUID() }));
    for (const alarm of ended)
      this.#outbox.emit(turn, ...standingAlarmEvents(alarm, turn.now, keyIds, turn.now));
    for (const alarm of raised) {
      this.#counts.add(turn, `alarms/${alarm.type}`);
      this.#outbox.emit(turn, ...standingAlarmEvents(alarm, null, keyIds, turn.now));
    }
    const before = this.#open;
    turn.undo(() => {
      this.#open = before;
    });
    this.#open = [...before.filter((open) => !ended.includes(open)), ...raised];
    this.#facts.set(turn, 'alarms', this.#open);
  }
}

function isSame(one: State, other: State): boolean {
  return one.type === other.type && one.deviceId === other.deviceId;
}
