/** Counts the objects' reads of D1, and delays or fails them. */
import { env } from 'cloudflare:workers';
import { expect, vi } from 'vitest';

export interface RegistryReads {
  count: number;
  /** The most concurrent reads. */
  mostAtOnce: number;
}

/**
 * Calls `before` and `after` around each read of D1, in the object that reads, until the end of the test; the reader
 * gets their exceptions. A batch with a SELECT is one read; a batch of writes is none.
 */
export function watchRegistry(
  before: () => Promise<void> | void = () => {},
  after: () => Promise<void> | void = () => {},
): RegistryReads {
  const reads: RegistryReads = { count: 0, mostAtOnce: 0 };
  let underWay = 0;
  const database = Object.getPrototypeOf(env.DB) as D1Database;
  const statement = Object.getPrototypeOf(env.DB.prepare('SELECT 1')) as D1PreparedStatement;
  const watch = <Of extends object>(prototype: Of, method: keyof Of & string) => {
    const own = prototype[method] as (...given: unknown[]) => Promise<unknown>;
    vi.spyOn(prototype as Record<string, (...given: unknown[]) => unknown>, method).mockImplementation(
      async function (this: Of, ...given: unknown[]) {
        const statements = (method === 'batch' ? given[0] : [this]) as { statement: string }[];
        if (!statements.some(({ statement }) => /^select/i.test(statement)))
          return await own.apply(this, given);
        reads.count += 1;
        underWay += 1;
        reads.mostAtOnce = Math.max(reads.mostAtOnce, underWay);
        try {
          await before();
          const answer = await own.apply(this, given);
          await after();
          return answer;
        } finally {
          underWay -= 1;
        }
      },
    );
  };
  for (const method of ['raw', 'all', 'first'] as const) watch(statement, method);
  watch(database, 'batch');
  return reads;
}

/**
 * Holds back the answer of the next read after it was read; other reads are not affected. `untilHeld` waits until the
 * answer is held, `release` sends it.
 */
export function holdNextAnswer() {
  const released = Promise.withResolvers<void>();
  let isHeld = false;
  const after = async () => {
    if (isHeld) return;
    isHeld = true;
    await released.promise;
  };
  // Polled, because a promise that an object resolves continues in that object's context, not in the test's.
  const untilHeld = () => vi.waitFor(() => expect(isHeld).toBe(true));
  return { reads: watchRegistry(() => {}, after), untilHeld, release: () => released.resolve() };
}

/** From now on D1 does not answer. */
export function hangRegistry(): RegistryReads {
  return watchRegistry(() => new Promise(() => {}));
}

/** From now on D1 answers with an error. */
export function failRegistry(): RegistryReads {
  return watchRegistry(() => {
    throw new Error('D1_ERROR: the test wants it so');
  });
}
