/** The siteId of an object. Callers pass it: an object does not know its own name. */
import type { Facts } from '../object/facts.ts';
import type { Turns } from '../object/turn.ts';

/**
 * Names of the JSON values that a site stores. `registry` is its copy of D1; null when the plant was deleted.
 */
export type SiteFact =
  | 'identity'
  | 'registry'
  | 'registryReadAt'
  | 'config'
  | 'modeOverride'
  | 'configuredGateway'
  | 'presence'
  | 'snapshot'
  | 'telemetry'
  | 'plan'
  | 'batteryDemands'
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

  /** The siteId; undefined before the first call. */
  get known(): string | undefined {
    return this.#siteId;
  }

  get siteId(): string {
    if (!this.#siteId) throw new Error('siteId is not set yet');
    return this.#siteId;
  }

  be(siteId: string): void {
    if (this.#siteId === siteId) return;
    this.#turns.run((turn) => this.#facts.set(turn, 'identity', { siteId }));
    this.#siteId = siteId;
  }
}
