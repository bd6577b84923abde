/** Calls to other objects and to the registry: their deadlines, and the stubs of the objects that are called. */
import { type DueSource, earliest } from './agenda.ts';
import type { Clock } from './clock.ts';
import type { Turn } from './turn.ts';

interface Call {
  deadlineMs: number;
  giveUp(): void;
}

/** Maximum number of cached stubs; when it is reached, the cache is cleared. */
const MAX_KEPT = 1_000;

/**
 * Open calls to other objects. The agenda holds their deadlines instead of timers, because the runtime keeps a
 * cancelled timer in its list for as long as the object is awake.
 */
export class Calls implements DueSource {
  readonly name = 'calls';
  readonly #clock: Pick<Clock, 'now'>;
  readonly #onCall: (deadlineMs: number) => void;
  readonly #open = new Set<Call>();

  /** `onCall`: a call has begun, which is due at its deadline. */
  constructor(clock: Pick<Clock, 'now'>, onCall: (deadlineMs: number) => void) {
    this.#clock = clock;
    this.#onCall = onCall;
  }

  /** Returns the answer, or rejects at the deadline. The call itself continues; its outcome is then ignored. */
  async until<Value>(deadlineMs: number, work: PromiseLike<Value>): Promise<Value> {
    const limit = Promise.withResolvers<never>();
    const limitMs = Math.max(0, deadlineMs - this.#clock.now());
    const giveUp = () => limit.reject(new Error(`no answer within ${limitMs} ms from another object or D1`));
    const call: Call = { deadlineMs, giveUp };
    this.#open.add(call);
    this.#onCall(deadlineMs);
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

/**
 * Cached stubs of other objects, by name. Creating a stub for each call took a third of the alarm's time at a
 * slot boundary. A failed call removes its stub, because the stub of an object that broke stays broken.
 */
export class Stubs<Stub> {
  readonly #make: (name: string) => Stub;
  readonly #kept = new Map<string, Stub>();

  constructor(make: (name: string) => Stub) {
    this.#make = make;
  }

  async call<Answer>(name: string, work: (stub: Stub) => Promise<Answer>): Promise<Answer> {
    try {
      return await work(this.#stub(name));
    } catch (error) {
      this.#kept.delete(name);
      throw error;
    }
  }

  #stub(name: string): Stub {
    const kept = this.#kept.get(name);
    if (kept) return kept;
    if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
    const stub = this.#make(name);
    this.#kept.set(name, stub);
    return stub;
  }
}

/**
 * Adds a time limit to a promise with a timer, for callers without `Calls`, such as the Worker. The work itself
 * continues after the limit; its outcome is then ignored.
 */
export async function within<Value>(limitMs: number, work: PromiseLike<Value>): Promise<Value> {
  let timer: number | null = null;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`no answer within ${limitMs} ms from another object or D1`)),
      limitMs,
    );
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}
