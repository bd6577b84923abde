/** Reports the events of one client connection to the metrics and the log, for AMQP and MQTT. */
import type { BridgeLog } from './log.ts';
import type { Metrics, Protocol } from './metrics.ts';
import type { EndReason, PublishResult, RefusalReason } from './reasons.ts';

/** A client that never opened its connection; `username` and `vhost` as it sent them, if it did. */
export interface Refusal {
  reason: RefusalReason;
  why: string;
  /** Error code in the edge's answer. */
  code?: string | undefined;
  username?: string | undefined;
  vhost?: string | undefined;
}

/** Every connection ends with one event: `closed` if it was opened, otherwise `refused`. */
export interface ConnectionEvents {
  opened(details: { username: string; vhost?: string }): void;
  refused(refusal: Refusal): void;
  closed(why: string, reason: EndReason): void;
  published(count: number): void;
  /** Counts `count` publishes with this result. */
  answered(result: PublishResult, count: number): void;
  delivered(count: number): void;
}

type Client = { protocol: Protocol; connection: string; address: string };

export class ConnectionReport implements ConnectionEvents {
  readonly #metrics: Metrics;
  readonly #log: BridgeLog;
  readonly #client: Client;
  #names: { username: string; vhost: string | undefined } = { username: '', vhost: undefined };
  #openedMs = 0;

  constructor(metrics: Metrics, log: BridgeLog, client: Client) {
    this.#metrics = metrics;
    this.#log = log;
    this.#client = client;
  }

  opened({ username, vhost }: { username: string; vhost?: string }): void {
    this.#names = { username, vhost };
    this.#openedMs = Date.now();
    this.#metrics.opened(this.#client.protocol);
    this.#log.write('connection opened', { ...this.#client, ...this.#names });
  }

  /**
   * The client was refused, or it left by itself. A client that disconnects before it sent a user name is
   * logged at level debug, because load balancers do this all the time.
   */
  refused({ reason, why, code, username, vhost }: Refusal): void {
    this.#metrics.refused(this.#client.protocol, reason);
    if (reason === 'client' && username === undefined)
      this.#log.write('client disconnected before login', { ...this.#client, why });
    else
      this.#log.write('client not connected', {
        ...this.#client,
        username,
        vhost,
        reason,
        code,
        why,
      });
  }

  closed(why: string, reason: EndReason): void {
    this.#metrics.closed(this.#client.protocol, reason);
    const seconds = Math.round((Date.now() - this.#openedMs) / 1_000);
    this.#log.write('connection closed', { ...this.#client, ...this.#names, seconds, reason, why });
  }

  published(count: number): void {
    this.#tally.published += count;
  }

  answered(result: PublishResult, count: number): void {
    this.#tally[result] += count;
  }

  delivered(count: number): void {
    this.#tally.delivered += count;
  }

  get #tally() {
    return this.#metrics.tallies[this.#client.protocol];
  }
}
