/**
 * Reports to the metrics object: counts as increments, which are sent again after a failed call, and the state of
 * an object's queues, complete each time.
 */
import type { DueSource } from '../object/agenda.ts';
import type { Clock } from '../object/clock.ts';
import { reasonOf } from '../object/reason.ts';
import type { Turn } from '../object/turn.ts';
import type { Counts, QueueDrop } from './families.ts';

const PAUSE_MS = 60_000;
/** Pause while a call is not answered. */
const SILENT_PAUSE_MS = 5 * 60_000;
/** Shorter than the time for which an object counts as awake, by the alarm interval of a connected client. */
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

/** Says that an object is awake, with its queues if it has any. The next report makes up for a lost one. */
export interface Report {
  /** Durable Object id. */
  object: string;
  class: 'Site' | 'Vhost';
  /** Time by the object's clock. A report that is older than the last one is ignored. */
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
  /** Returns all metrics in the text format of Prometheus. `version`: the deployed version. */
  expose(version: string): string;
}

/** The binding of the metrics object. */
export interface MetricsEnv {
  METRICS: DurableObjectNamespace<MetricsRpc & Rpc.DurableObjectBranded>;
}

/** Returns the stub of the metrics object, of which there is exactly one. */
export function metricsOf({ METRICS }: MetricsEnv) {
  return METRICS.get(METRICS.idFromName('metrics'));
}

/** The reporting object, as the reporter uses it. */
export interface Reported {
  class: Report['class'];
  clock: Pick<Clock, 'now'>;
  /** Returns an equal value as long as nothing has changed. */
  mark(): unknown;
  report(): Omit<Report, 'object' | 'class' | 'atMs'>;
}

/**
 * Reports the state of this object to the metrics object, at most once a minute: with the next alarm, or at
 * the latest with an alarm of its own a minute after a change. Without a change it still reports at times
 * that it is awake. Calls are not awaited and nothing is stored; after a failure the state of that moment is
 * sent a minute later.
 */
export class Reporter implements DueSource {
  readonly name = 'metrics';
  readonly #ctx: DurableObjectState;
  readonly #env: MetricsEnv;
  readonly #reported: Reported;
  readonly #onChange: () => void;
  /**
   * The mark of the last report. The state at load counts as reported: if it was not, an alarm is still set
   * for it.
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
   * Whether to report that the object is awake. A newly loaded object does not know when it reported last: with
   * something to report it does so at once, otherwise only in the first minute of each SIGN_MS.
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
        console.warn('metrics not reported, will retry', { reason: reasonOf(error) });
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
