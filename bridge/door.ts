/**
 * Opens the link of every client: queues the dials of an address, dials, counts the outcomes and logs
 * failures.
 */
import { createHmac, randomBytes } from 'node:crypto';
import type * as z from 'zod';
import type { LINK_PATHS } from '../protocol/link/proof.ts';
import { Addresses } from './addresses.ts';
import { type DialResult, dial, type LinkCredential } from './link-dial.ts';
import type { BridgeLog } from './log.ts';
import type { Metrics, Protocol } from './metrics.ts';
import type { Edge } from './proof.ts';

/** The client that a link is dialled for, with its connection id in the log and at the edge. */
interface DoorClient extends LinkCredential {
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

  /**
   * Dials a client's link. While an address counts as guessing device ids, its rejections do not count toward
   * the suspension of a device [C-3.11].
   */
  dial<Up, Down>(
    protocol: Protocol,
    client: DoorClient,
    schema: z.ZodType<Down>,
    isGone: () => boolean,
  ): Promise<DialResult<Up, Down>> {
    const device = protocol === 'mqtt' ? { device: client.username } : {};
    return this.#addresses.dial<Up, Down>(
      client.address,
      (uncounted) => this.#dial(protocol, uncounted ? 'mqttUncounted' : protocol, client, schema),
      { isGone, credential: this.#digest(client), isProbe: (client.probe ?? '') !== '', ...device },
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
      this.#log.write('dial to edge failed', { protocol, connection, why: result.reason });
    if (result.outcome === 'unproven')
      this.#log.write('edge rejected the bridge proof', { protocol, connection, why: result.reason });
    return result;
  }

  /**
   * Returns a digest that differs for different credentials, so that no credential has to be stored. The key
   * of the HMAC is new in each process.
   */
  #digest({ username, password, fingerprint }: LinkCredential): string {
    return createHmac('sha256', this.#digestKey)
      .update(JSON.stringify([username, password, fingerprint]))
      .digest('base64');
  }
}
