/** How every client gets its link: in line with others of its address, dialled, counted, and told of where it fails. */
import { createHmac, randomBytes } from 'node:crypto';
import type { z } from 'zod';
import type { LINK_PATHS } from '../protocol/link/proof.ts';
import { Addresses, type Dialing } from './addresses.ts';
import { type DialResult, dial, type LinkCredential } from './link.ts';
import type { BridgeLog } from './log.ts';
import type { Metrics, Protocol } from './metrics.ts';
import type { Edge } from './proof.ts';

/** Whose link it is to be, and by what name log and edge know the connection. */
export interface DoorClient extends LinkCredential {
  connection: string;
}

export class Door {
  readonly #edge: Edge;
  readonly #metrics: Metrics;
  readonly #log: BridgeLog;
  readonly #addresses = new Addresses();
  readonly #digestKey = randomBytes(32);

  constructor(edge: Edge, metrics: Metrics, log: BridgeLog) {
    this.#edge = edge;
    this.#metrics = metrics;
    this.#log = log;
  }

  stop(): void {
    this.#addresses.stop();
  }

  /** A partner's link. */
  partner<Up, Down>(client: DoorClient, schema: z.ZodType<Down>, isGone: () => boolean) {
    const credential = this.#digest(client);
    return this.#addresses.dial<Up, Down>(client.address, () => this.#dial('amqp', 'amqp', client, schema), {
      isGone,
      credential,
    });
  }

  /** A device's; where its address guesses, a refusal counts against none [C-3.11]. */
  device<Up, Down>(client: DoorClient, schema: z.ZodType<Down>, isGone: () => boolean) {
    const dialing: Dialing = { isGone, credential: this.#digest(client), device: client.username };
    return this.#addresses.dial<Up, Down>(
      client.address,
      (uncounted) => this.#dial('mqtt', uncounted ? 'mqttUncounted' : 'mqtt', client, schema),
      dialing,
    );
  }

  async #dial<Up, Down>(
    protocol: Protocol,
    path: keyof typeof LINK_PATHS,
    client: DoorClient,
    schema: z.ZodType<Down>,
  ): Promise<DialResult<Up, Down>> {
    const startMs = performance.now();
    const result = await dial<Up, Down>(this.#edge, path, client, schema, this.#metrics.answered[protocol]);
    this.#metrics.dialed(protocol, result.outcome, (performance.now() - startMs) / 1_000);
    const { connection } = client;
    if (result.outcome === 'trouble')
      this.#log.tell('edge not reached', { protocol, connection, why: result.reason });
    if (result.outcome === 'unproven')
      this.#log.tell('edge does not take our proof', { protocol, connection, why: result.reason });
    return result;
  }

  /** Tells credentials apart without keeping any: keyed anew in each process. */
  #digest({ username, password, fingerprint }: LinkCredential): string {
    return createHmac('sha256', this.#digestKey)
      .update(JSON.stringify([username, password, fingerprint]))
      .digest('base64');
  }
}
