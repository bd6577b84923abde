/**
 * Tells the Figures object what this one holds, at most once a minute: at an alarm that rings anyway, or a minute behind a
 * change at one of its own; and a sign of work now and then. No call is awaited, and none keeps anything: one that
 * fails is made again a minute later, with what is so then.
 */
import type { Env } from '../env.ts';
import type { DueSource } from '../object/agenda.ts';
import type { Clock } from '../object/clock.ts';
import { reasonOf } from '../object/reason.ts';
import type { Turn } from '../object/turn.ts';
import type { Report } from './report.ts';
import { figuresOf } from './stub.ts';

const PAUSE_MS = 60_000;
/** As long as a call is not answered. */
const SILENT_PAUSE_MS = 5 * 60_000;
/** Shorter than what counts as awake, by as much as an alarm of a connected client is apart. */
const SIGN_MS = 3 * 60_000;

/** What an object tells of itself. */
export interface Reported {
  class: Report['class'];
  clock: Pick<Clock, 'now'>;
  /** Equal while there is nothing new. */
  mark(): unknown;
  report(): Omit<Report, 'object' | 'class' | 'atMs'>;
}

export class Reporter implements DueSource {
  readonly name = 'figures';
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #reported: Reported;
  readonly #onChange: () => void;
  /** What it was at the wake counts as told: where it was not, an alarm stands from before. */
  #told: unknown;
  /** When it became other than what is told. */
  #changedAtMs: number | undefined;
  /** Undefined before the first of this wake. */
  #calledAtMs: number | undefined;
  #isCalling = false;

  /** `onChange`: due times have changed by themselves, for a call has failed. */
  constructor(ctx: DurableObjectState, env: Env, reported: Reported, onChange: () => void) {
    this.#ctx = ctx;
    this.#env = env;
    this.#reported = reported;
    this.#onChange = onChange;
    this.#told = reported.mark();
  }

  dueMs(): number | undefined {
    if (this.#reported.mark() === this.#told) {
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
    const isNews = this.#reported.mark() !== this.#told && this.#mayCallAtMs() <= turn.now;
    if (isNews || this.#isSignDue(turn.now)) this.run(turn);
  }

  /** One that has just woken knows neither its last sign nor what it told: the first goes by the clock, the rest is told anew. */
  #isSignDue(now: number): boolean {
    if (this.#calledAtMs !== undefined) return now - this.#calledAtMs >= SIGN_MS;
    return this.#told !== undefined || now % SIGN_MS < PAUSE_MS;
  }

  #mayCallAtMs(): number {
    return (this.#calledAtMs ?? 0) + (this.#isCalling ? SILENT_PAUSE_MS : PAUSE_MS);
  }

  #call(now: number): void {
    if (this.#calledAtMs === now) return;
    const before = this.#told;
    this.#told = this.#reported.mark();
    this.#calledAtMs = now;
    this.#isCalling = true;
    const told = this.#tell(now)
      .catch((error: unknown) => {
        console.warn('figures not told', { reason: reasonOf(error) });
        this.#told = before;
        this.#onChange();
      })
      .finally(() => {
        this.#isCalling = false;
      });
    this.#ctx.waitUntil(told);
  }

  async #tell(atMs: number): Promise<void> {
    const { class: of } = this.#reported;
    const report = { object: this.#ctx.id.toString(), class: of, atMs, ...this.#reported.report() };
    await figuresOf(this.#env).report(report);
  }
}
