/** Which site an object is, as whoever calls it by its name says. */
import type { Facts } from '../object/facts.ts';
import type { Turns } from '../object/turn.ts';

/** The facts of a site, by name. `registry` is its copy of D1, null when the plant is gone. */
export type SiteFact =
  | 'identity'
  | 'registry'
  | 'registryReadAt'
  | 'config'
  | 'modeOverride'
  | 'agreedWith'
  | 'presence'
  | 'snapshot'
  | 'telemetry'
  | 'plan'
  | 'commanded'
  | 'alarms';

export class SiteIdentity {
  readonly #facts: Facts<SiteFact>;
  readonly #turns: Turns;
  #siteId: string | undefined;

  constructor(facts: Facts<SiteFact>, turns: Turns) {
    this.#facts = facts;
    this.#turns = turns;
    this.#siteId = facts.get<{ siteId: string }>('identity')?.siteId;
  }

  /** Undefined until anybody has called it by its name. */
  get known(): string | undefined {
    return this.#siteId;
  }

  get siteId(): string {
    if (!this.#siteId) throw new Error('a site without identity has no commands');
    return this.#siteId;
  }

  be(siteId: string): void {
    if (this.#siteId === siteId) return;
    this.#turns.run((turn) => this.#facts.set(turn, 'identity', { siteId }));
    this.#siteId = siteId;
  }
}
