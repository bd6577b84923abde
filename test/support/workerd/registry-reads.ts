/** The reads of D1 that objects make while a test looks: counted, and held up or failed as it wants. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';

export interface RegistryReads {
  count: number;
}

/** Runs before each read of D1, in the object that makes it, until `vi.restoreAllMocks()`; what it throws, the reader gets. */
export function watchRegistry(before: () => Promise<void> | void = () => {}): RegistryReads {
  const reads: RegistryReads = { count: 0 };
  const database = Object.getPrototypeOf(env.DB) as D1Database;
  const statement = Object.getPrototypeOf(env.DB.prepare('SELECT 1')) as D1PreparedStatement;
  const watch = <Of extends object>(prototype: Of, method: keyof Of & string) => {
    const own = prototype[method] as (...given: unknown[]) => Promise<unknown>;
    vi.spyOn(prototype as Record<string, (...given: unknown[]) => unknown>, method).mockImplementation(
      async function (this: Of, ...given: unknown[]) {
        reads.count += 1;
        await before();
        return await own.apply(this, given);
      },
    );
  };
  for (const method of ['raw', 'all', 'first'] as const) watch(statement, method);
  watch(database, 'batch');
  return reads;
}

/** D1 does not answer any more. */
export function hangRegistry(): RegistryReads {
  return watchRegistry(() => new Promise(() => {}));
}

/** D1 answers with an error. */
export function failRegistry(): RegistryReads {
  return watchRegistry(() => {
    throw new Error('D1_ERROR: the test wants it so');
  });
}
