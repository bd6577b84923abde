/** The siteId of an object. Callers pass the siteId, because an object cannot read its own name. */
import type { KeyValues } from '../object/key-values.ts';
import type { Turns } from '../object/turn.ts';
import { Fact, type SiteFact } from './stored.ts';

export class SiteIdentity {
  readonly #turns: Turns;
  readonly #stored: Fact<{ siteId?: string }>;

  constructor(values: KeyValues<SiteFact>, turns: Turns) {
    this.#turns = turns;
    this.#stored = new Fact(values, 'identity', {});
  }

  /** The siteId; undefined before the first call that passes it. */
  get known(): string | undefined {
    return this.#stored.value.siteId;
  }

  get siteId(): string {
    if (!this.known) throw new Error('the object does not know its siteId yet: a caller must pass it first');
    return this.known;
  }

  be(siteId: string): void {
    if (this.known !== siteId) this.#turns.run((turn) => this.#stored.set(turn, { siteId }));
  }
}
