/**
 * The list of everything that an object does at a given time, and the object's only alarm, which is set for the
 * earliest. Each due source is listed once. A source stays due until its work has ended: work in progress is due
 * at its deadline, so a crash loses nothing.
 */

import type { Clock } from './clock.ts';
import { reasonOf, stackOf } from './reason.ts';
import type { Turn, Turns } from './turn.ts';

export interface DueSource {
  readonly name: string;
  /** Epoch milliseconds; undefined when nothing is due. */
  dueMs(): number | undefined;
  /** Does what is due at the turn's `now`, if need be in parts: what it leaves stays due. */
  run(turn: Turn): void;
  /** Optional work at any alarm, after all due work. */
  ride?(turn: Turn): void;
}

/** Pause before a source whose work failed runs again. */
const RETRY_MS = 60_000;
/** An alarm that has not fired this long after its time counts as missed. */
const OVERDUE_MS = 1_000;

export class Agenda {
  readonly #sources: readonly DueSource[];
  readonly #turns: Turns;
  readonly #alarm: AlarmClock;
  readonly #retryAtMs = new Map<DueSource, number>();
  #isArmed = false;

  constructor(sources: readonly DueSource[], turns: Turns, alarm: AlarmClock) {
    this.#sources = sources;
    this.#turns = turns;
    this.#alarm = alarm;
  }

  /** Reads the stored alarm when the object is loaded, and sets it for the earliest due time. */
  async load(): Promise<void> {
    await this.#alarm.load();
    this.arm();
  }

  /** The alarm handler: does all due work in one turn, each source in a separate step. */
  run(): void {
    this.#alarm.rang();
    this.#isArmed = false;
    try {
      this.#turns.run((turn) => {
        for (const source of this.#sources) this.#runSource(source, turn);
        for (const source of this.#sources) if (source.ride) turn.step(() => source.ride?.(turn));
      });
    } catch (error) {
      console.error('alarm of an object failed, its next alarm runs what is still due', {
        stack: stackOf(error),
      });
    } finally {
      // A committed turn has already set the alarm at its end: skip a second call of every source.
      if (!this.#isArmed) this.arm();
    }
  }

  /** Sets the alarm for the earliest due time. `newMs`: only this due time is new, so no source is asked. */
  arm(newMs?: number): void {
    if (newMs === undefined) this.#isArmed = true;
    this.#alarm.arm(newMs ?? earliest(this.#sources.map((source) => this.#dueMs(source))));
  }

  #runSource(source: DueSource, turn: Turn): void {
    const dueMs = this.#dueMs(source);
    if (dueMs === undefined || dueMs > turn.now) return;
    if (turn.step(() => source.run(turn))) this.#retryAtMs.delete(source);
    else this.#retryAtMs.set(source, turn.now + RETRY_MS);
  }

  #dueMs(source: DueSource): number | undefined {
    const dueMs = source.dueMs();
    return dueMs === undefined ? undefined : Math.max(dueMs, this.#retryAtMs.get(source) ?? dueMs);
  }
}

/**
 * Sets the object's alarm. An alarm that is set is only ever moved to an earlier time (rule 10), never to the
 * past. While the handler of an alarm runs, the alarm is not set for that alarm's own time, because the
 * runtime would treat it as the same alarm and delete it when the handler ends. An alarm that did not fire in
 * time is set again by the next call of `arm`.
 */
export class AlarmClock {
  readonly #storage: DurableObjectStorage;
  readonly #clock: Clock;
  #isLoaded = false;
  #setForMs: number | null = null;
  #rangForMs = 0;

  constructor(storage: DurableObjectStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** Reads the alarm that was set before the object was loaded. */
  async load(): Promise<void> {
    this.#setForMs = await this.#storage.getAlarm();
    this.#isLoaded = true;
  }

  /** Must be called first in the alarm handler. */
  rang(): void {
    this.#rangForMs = Math.max(this.#rangForMs, this.#setForMs ?? 0);
    this.#setForMs = null;
  }

  /**
   * Sets the alarm for `dueMs`, unless an earlier one is set. If the alarm was missed, sets it for now even
   * if nothing is due: the due time that it was set for may have been lost when the object was evicted. Does
   * nothing before `load`.
   */
  arm(dueMs: number | undefined): void {
    if (!this.#isLoaded) return;
    const now = this.#clock.now();
    const isMissed = this.#setForMs !== null && this.#setForMs <= now - OVERDUE_MS;
    const wantedMs = isMissed ? now : dueMs;
    if (wantedMs === undefined) return;
    if (!isMissed && this.#setForMs !== null && this.#setForMs <= wantedMs) return;
    const at = Math.max(wantedMs, now, this.#rangForMs + 1);
    this.#setForMs = at;
    this.#storage.setAlarm(at).catch((error: unknown) => {
      console.error('alarm of an object not set, its due tasks may wait for its next turn', {
        reason: reasonOf(error),
      });
      this.#setForMs = null;
    });
  }
}

/** The earliest of the given times; undefined if there is none. */
export function earliest(moments: Iterable<number | null | undefined>): number | undefined {
  let first: number | undefined;
  for (const moment of moments) {
    if (moment !== null && moment !== undefined && (first === undefined || moment < first)) first = moment;
  }
  return first;
}
