/**
 * The fence of an object [C-14.8]: while it is up, the object starts no turn, so its tables do not change. It is raised
 * for a backup or a restore. The object reloads when the fence is raised and when it is lowered: its clients are
 * disconnected, and it forgets what was only in memory, as in a crash. A fence that nobody lowers ends at its time.
 */
import { formatInstant } from '../../protocol/ids.ts';
import { FENCED, type FenceState, RELOADS } from '../backup-rpc.ts';
import type { Clock } from './clock.ts';

const NAME = 'fence';

export class Fence {
  readonly #ctx: DurableObjectState;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #state: FenceState | undefined;

  constructor(ctx: DurableObjectState, clock: Pick<Clock, 'now'>) {
    this.#ctx = ctx;
    this.#clock = clock;
    const stored = ctx.storage.kv.get<FenceState>(NAME);
    if (stored && stored.untilMs > clock.now()) this.#state = stored;
    else if (stored) ctx.storage.kv.delete(NAME);
  }

  /** The fence that was up when the object was loaded; undefined if none was. */
  get state(): FenceState | undefined {
    return this.#state;
  }

  /** Throws while the fence is up. After its time the object reloads, without it. */
  check(): void {
    if (!this.#state) return;
    if (this.#state.untilMs <= this.#clock.now()) this.#ctx.abort(RELOADS);
    throw new Error(`${FENCED} until ${formatInstant(this.#state.untilMs)}`);
  }

  /** Throws unless the fence with this id is up. */
  require(id: string): void {
    if (this.#state?.id !== id || this.#state.untilMs <= this.#clock.now())
      throw new Error('this fence is not up: it was lowered, or its time is over');
  }

  /** Raises a fence and reloads the object, so the call never returns; a fence that is up stays as it is. */
  async raise(state: FenceState): Promise<void> {
    if (this.#state && this.#state.untilMs > this.#clock.now()) return;
    this.#ctx.storage.kv.put(NAME, state);
    await this.#reload();
  }

  /** Lowers the fence with this id and reloads the object, so the call never returns; without that fence does nothing. */
  async lower(id: string): Promise<void> {
    if (this.#state?.id !== id) return;
    this.#ctx.storage.kv.delete(NAME);
    await this.#reload();
  }

  /** Sets the alarm for the end of the fence; no other work of the object is due before. */
  async wait(): Promise<void> {
    if (this.#state) await this.#ctx.storage.setAlarm(this.#state.untilMs);
  }

  async #reload(): Promise<void> {
    await this.#ctx.storage.sync();
    this.#ctx.abort(RELOADS);
  }
}
