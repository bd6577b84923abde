/**
 * Cached stubs of other objects, by name. Creating a stub for each call took a third of the alarm's time at a
 * slot boundary. A failed call removes its stub, because the stub of an object that broke stays broken.
 */

/** Maximum number of cached stubs; when it is reached, the cache is cleared. */
const MAX_KEPT = 1_000;

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
