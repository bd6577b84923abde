/**
 * Where a site delivers. Each lane has one destination: a partner key's Vhost, or the registry (D1). A new kind of
 * destination is one class here and one line in `destinationOf`.
 */

import { writeRegistry } from '../../../registry/writes.ts';
import type { VhostStub } from '../../env.ts';
import { Stubs } from '../../object/calls.ts';
import type { PassingEvent } from '../../rpc.ts';
import { REGISTRY_LANE, toEvent, toRegistryWrite } from './event-rows.ts';
import type { OutboxRow } from './rows.ts';

/**
 * The answer of a destination to a delivery. `received`: it has stored the rows up to this sequence, and the
 * Site may delete them. `seen`: it has the rows up to this sequence, the last ones perhaps only in memory; if
 * missing, equal to `received`. `gone`: the destination no longer exists, and the Site deletes all rows for
 * it.
 */
export type Delivered = { received: number; seen?: number } | 'gone';

export interface Destination {
  /** How long a delivery may take, milliseconds. */
  readonly limitMs: number;
  /**
   * True: after a delivery a separate turn deletes the delivered rows at once; false: the next turn that runs
   * anyway deletes them.
   */
  readonly deletesAtOnce: boolean;
  /** Delivers rows in their order. Rejects if it is unknown which rows arrived; the outbox then sends all of them again. */
  deliver(rows: readonly OutboxRow[]): Promise<Delivered>;
  /** Delivers an event that is not in the outbox: a failure loses it. Absent: the destination gets no such events. */
  pass?(event: PassingEvent): Promise<void>;
}

export type DestinationOf = (lane: string) => Destination;

export function destinationOf(host: {
  database: D1Database;
  /** The Vhost of a key. */
  vhostOf(keyId: string): VhostStub;
  siteId(): string;
}): DestinationOf {
  const registry = new RegistryDestination(host.database);
  const vhosts = new Stubs<VhostStub>(host.vhostOf);
  return (lane) => (lane === REGISTRY_LANE ? registry : new VhostDestination(vhosts, lane, host.siteId()));
}

class RegistryDestination implements Destination {
  /**
   * Longer than the interval of the session check, so that the alarm for the check comes first and no alarm
   * is set only for this deadline.
   */
  readonly limitMs = 100_000;
  /** Deleting later would need an alarm, which costs one more row write. */
  readonly deletesAtOnce = true;
  readonly #database: D1Database;

  constructor(database: D1Database) {
    this.#database = database;
  }

  async deliver(rows: readonly OutboxRow[]): Promise<Delivered> {
    await writeRegistry(this.#database, rows.map(toRegistryWrite));
    return { received: rows.at(-1)?.sequence ?? 0 };
  }
}

class VhostDestination implements Destination {
  readonly limitMs = 8_000;
  readonly deletesAtOnce = false;
  readonly #vhosts: Stubs<VhostStub>;
  readonly #keyId: string;
  readonly #siteId: string;

  constructor(vhosts: Stubs<VhostStub>, keyId: string, siteId: string) {
    this.#vhosts = vhosts;
    this.#keyId = keyId;
    this.#siteId = siteId;
  }

  async deliver(rows: readonly OutboxRow[]): Promise<Delivered> {
    const receipt = await this.#vhosts.call(this.#keyId, (vhost) =>
      vhost.receive(this.#siteId, rows.map(toEvent)),
    );
    return receipt.gone ? 'gone' : receipt;
  }

  async pass(event: PassingEvent): Promise<void> {
    await this.#vhosts.call(this.#keyId, (vhost) => vhost.receivePassing(this.#siteId, [event]));
  }
}
