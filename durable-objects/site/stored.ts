/** The named JSON values that the parts of a site store, with a copy in memory. */
import type { KeyValues } from '../object/key-values.ts';
import type { Turn } from '../object/turn.ts';

/**
 * Names of the JSON values that a site stores. `registry` is its copy of D1; null when D1 has no such plant or
 * the copy is too large to store.
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
  | 'meterExchanges'
  | 'plan'
  | 'batteryDemands'
  | 'alarms';

/** A stored value. `set` changes it in memory at once; if the step fails, the previous value is restored. */
export class Fact<Value> {
  readonly #values: KeyValues<SiteFact>;
  readonly #name: SiteFact;
  #value: Value;

  constructor(values: KeyValues<SiteFact>, name: SiteFact, initial: Value) {
    this.#values = values;
    this.#name = name;
    const stored = values.get<Value>(name);
    this.#value = stored === undefined ? initial : stored;
  }

  get value(): Value {
    return this.#value;
  }

  set(turn: Turn, value: Value): void {
    const before = this.#value;
    turn.undo(() => {
      this.#value = before;
    });
    this.#value = value;
    this.#values.set(turn, this.#name, value);
  }
}

/**
 * Changes an entry of a map in memory, or deletes it if `value` is undefined. If the step fails, the previous
 * entry is restored.
 */
export function putIn<Key, Value>(
  turn: Turn,
  map: Map<Key, Value>,
  key: Key,
  value: Value | undefined,
): void {
  const put = (entry: Value | undefined) => {
    if (entry === undefined) map.delete(key);
    else map.set(key, entry);
  };
  const before = map.get(key);
  turn.undo(() => put(before));
  put(value);
}
