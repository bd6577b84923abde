/**
 * The reports to the metrics object. Counts are sent as increments, which are sent again after a failed call.
 * The state of an object's queues is sent completely each time.
 */

import type { DueSource } from '../object/agenda.ts';
import type { Clock } from '../object/clock.ts';
import { reasonOf } from '../object/reason.ts';
import type { Turn } from '../object/turn.ts';
import { objectNamed } from '../object-id.ts';
import type { Counts, QueueDrop } from './families.ts';

const PAUSE_MS = 60_000;
/** Pause before the next call while the metrics object has not answered the previous one. */
const SILENT_PAUSE_MS = 5 * 60_000;
/**
 * How often an object reports that it is awake. The report waits for the next alarm, so this is shorter than
 * the time for which an object counts as awake (`expose.ts`), by the interval of the alarms that an object
 * with a connected client has.
 */
const SIGN_MS = 3 * 60_000;

export interface QueueMetrics {
  queue: string;
  /** Messages that wait for a consumer (`ready`) and messages that are delivered but not acknowledged (`unacked`). */
  ready: number;
  unacked: number;
  /** Time of the oldest message; null if the queue is empty. */
  oldestMs: number | null;
  /** Counts since the queue was created. */
  drops: Readonly<Partial<Record<QueueDrop, number>>>;
}

/** The queues of a key, with its organization. */
export interface KeyQueues {
  organization: string;
  key: string;
  queues: QueueMetrics[];
}

/**
 * Reports that an object is awake, with its queues if it has any. A report contains the whole state, so a
 * lost report is replaced by the next one.
 */
export interface Report {
  /** Durable Object id. */
  object: string;
  class: 'Site' | 'Vhost';
  /** Time by the object's clock. A report that is older than the newest one is ignored, unless it is the last one (`isOver`). */
  atMs: number;
  /** Absent: the object has no queues. */
  queues?: KeyQueues | undefined;
  /** The object has ended and sends no further reports. */
  isOver?: boolean;
}

export interface MetricsRpc {
  report(report: Report): void;
  /** Adds counts since the last call. If the answer of a call is lost, its counts may be added twice. */
  add(counts: Counts): void;
  /** Stores the counts and returns all of them since the beginning. */
  totals(): Counts;
  /**
   * Returns all metrics in the text format of Prometheus. `version`: the deployed version; `others`: the counts of the
   * counting objects.
   */
  expose(version: string, others: readonly Counts[]): string;
}

/** The binding of the metrics object. */
export interface MetricsEnv {
  METRICS: DurableObjectNamespace<MetricsRpc & Rpc.DurableObjectBranded>;
}

/**
 * Number of counting objects. Each busy object, and each isolate of the Worker, sends its counts every few seconds, which
 * one object could not answer for all of them; each call goes to any of these.
 */
const COUNTING_OBJECTS = 8;

/** Returns the stub of the metrics object, which has the reports of all objects. */
export function metricsOf(env: MetricsEnv) {
  return stubOf(env, 'metrics');
}

/** Returns the stub of any counting object: the scrape adds the counts of all. */
export function anyCounting(env: MetricsEnv) {
  return stubOf(env, countingName(Math.floor(Math.random() * COUNTING_OBJECTS)));
}

/** Reads the metrics of the whole edge in the text format of Prometheus. Rejects if one of its objects fails. */
export async function exposeMetrics(env: MetricsEnv, version: string): Promise<string> {
  const names = Array.from({ length: COUNTING_OBJECTS }, (_, index) => countingName(index));
  const counts = await Promise.all(names.map((name) => stubOf(env, name).totals()));
  return await metricsOf(env).expose(version, counts);
}

function countingName(index: number): string {
  return `counts-${index}`;
}

function stubOf(env: MetricsEnv, name: string) {
  return objectNamed(env, 'METRICS', name);
}

/** The reporting object, as the reporter uses it. */
export interface Reported {
  class: Report['class'];
  clock: Pick<Clock, 'now'>;
  /** Returns a value that changes when there is something new to report. */
  mark(): unknown;
  report(): Omit<Report, 'object' | 'class' | 'atMs'>;
}

/**
 * Reports the state of this object to the metrics object, at most once a minute: with the next alarm of the
 * object, or at the latest a minute after a change, with an alarm set for the report. Without a change the
 * object still reports about every SIGN_MS that it is awake, as long as it has alarms. Calls are not awaited
 * and nothing is stored; a minute after a report of a change failed, the state at that time is sent.
 */
export class Reporter implements DueSource {
  readonly name = 'metrics';
  readonly #ctx: DurableObjectState;
  readonly #env: MetricsEnv;
  readonly #reported: Reported;
  readonly #onChange: () => void;
  /**
   * The mark of the last report. When the object is loaded, its state counts as reported; if it was not, the
   * alarm that was set for the report still fires.
   */
  #sentMark: unknown;
  /** When the state first differed from the last report. */
  #changedAtMs: number | undefined;
  /** Time of the last call; undefined before the first one since the object was loaded. */
  #calledAtMs: number | undefined;
  #isCalling = false;

  /** `onChange`: due times have changed because a call failed. */
  constructor(ctx: DurableObjectState, env: MetricsEnv, reported: Reported, onChange: () => void) {
    this.#ctx = ctx;
    this.#env = env;
    this.#reported = reported;
    this.#onChange = onChange;
    this.#sentMark = reported.mark();
  }

  dueMs(): number | undefined {
    if (this.#reported.mark() === this.#sentMark) {
      this.#changedAtMs = undefined;
      return undefined;
    }
    this.#changedAtMs ??= this.#reported.clock.now();
    return Math.max(this.#changedAtMs + PAUSE_MS, this.#mayCallAtMs());
  }

  run(turn: Turn): void {
    turn.send(() => this.#call(turn.now));
  }

  ride(turn: Turn): void {
    const isNews = this.#reported.mark() !== this.#sentMark && this.#mayCallAtMs() <= turn.now;
    if (isNews || this.#isSignDue(turn.now)) this.run(turn);
  }

  /**
   * Whether to report that the object is awake. A newly loaded object does not know when it reported last: it
   * reports at once if it has a mark, otherwise only in the first minute of each SIGN_MS.
   */
  #isSignDue(now: number): boolean {
    if (this.#calledAtMs !== undefined) return now - this.#calledAtMs >= SIGN_MS;
    return this.#sentMark !== undefined || now % SIGN_MS < PAUSE_MS;
  }

  #mayCallAtMs(): number {
    return (this.#calledAtMs ?? 0) + (this.#isCalling ? SILENT_PAUSE_MS : PAUSE_MS);
  }

  #call(now: number): void {
    if (this.#calledAtMs === now) return;
    const before = this.#sentMark;
    this.#sentMark = this.#reported.mark();
    this.#calledAtMs = now;
    this.#isCalling = true;
    const sent = this.#send(now)
      .catch((error: unknown) => {
        console.warn('state of an object not reported to the metrics object, a later report replaces it', {
          reason: reasonOf(error),
        });
        this.#sentMark = before;
        this.#onChange();
      })
      .finally(() => {
        this.#isCalling = false;
      });
    this.#ctx.waitUntil(sent);
  }

  async #send(atMs: number): Promise<void> {
    const { class: of } = this.#reported;
    const report = { object: this.#ctx.id.toString(), class: of, atMs, ...this.#reported.report() };
    await metricsOf(this.#env).report(report);
  }
}
