/**
 * Stubs of other objects by name. Making one anew for each call was a third of what an alarm took at a slot boundary,
 * so it is kept, until a call fails: a stub whose object broke stays broken.
 */

/** Beyond it those that are kept are made anew. */
const MAX_KEPT = 100;

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
