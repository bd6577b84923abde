/**
 * Open calls to other objects. The agenda holds their deadlines instead of timers, because the runtime keeps a
 * cancelled timer in its list for as long as the object is awake.
 */
import { type DueSource, earliest } from './agenda.ts';
import type { Clock } from './clock.ts';
import type { Turn } from './turn.ts';

interface Call {
  deadlineMs: number;
  giveUp(): void;
}

export class Calls implements DueSource {
  readonly name = 'calls';
  readonly #clock: Pick<Clock, 'now'>;
  readonly #onChange: () => void;
  readonly #open = new Set<Call>();

  /** `onChange`: due times may have changed. */
  constructor(clock: Pick<Clock, 'now'>, onChange: () => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Returns the answer, or rejects at the deadline. The call itself continues; its outcome is then ignored. */
  async until<Value>(deadlineMs: number, work: PromiseLike<Value>): Promise<Value> {
    const limit = Promise.withResolvers<never>();
    const limitMs = Math.max(0, deadlineMs - this.#clock.now());
    const giveUp = () => limit.reject(new Error(`no answer within ${limitMs} ms`));
    const call: Call = { deadlineMs, giveUp };
    this.#open.add(call);
    this.#onChange();
    try {
      return await Promise.race([work, limit.promise]);
    } finally {
      this.#open.delete(call);
    }
  }

  dueMs(): number | undefined {
    return earliest([...this.#open].map(({ deadlineMs }) => deadlineMs));
  }

  run(turn: Turn): void {
    turn.send(() => {
      for (const call of this.#open) {
        if (call.deadlineMs > turn.now) continue;
        this.#open.delete(call);
        call.giveUp();
      }
    });
  }
}
