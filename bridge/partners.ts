/** The AMQP clients of this process: connects each TLS socket to its link, the metrics and the log. */
import { randomUUID } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { type VhostLinkDown, type VhostLinkUp, vhostLinkDown } from '../protocol/link/vhost.ts';
import { AmqpConnection } from './amqp/connection.ts';
import type { Door } from './door.ts';
import type { BridgeLog } from './log.ts';
import type { Metrics } from './metrics.ts';
import { reportRejected } from './refused.ts';

export class Partners {
  readonly #door: Door;
  readonly #metrics: Metrics;
  readonly #log: BridgeLog;
  readonly #connections = new Set<AmqpConnection>();

  constructor(door: Door, metrics: Metrics, log: BridgeLog) {
    this.#door = door;
    this.#metrics = metrics;
    this.#log = log;
  }

  accept(socket: TLSSocket, address: string): void {
    const known = { protocol: 'amqp' as const, connection: randomUUID(), address };
    const tally = this.#metrics.tallies.amqp;
    let opened = { username: '', vhost: '' };
    let openedMs = 0;
    const connection = new AmqpConnection(
      socket,
      (credential) =>
        this.#door.partner<VhostLinkUp, VhostLinkDown>(
          { ...credential, connection: known.connection, address, fingerprint: '' },
          vhostLinkDown,
          () => socket.destroyed,
        ),
      {
        opened: (details) => {
          opened = details;
          openedMs = Date.now();
          this.#metrics.opened('amqp');
          this.#log.write('connection opened', { ...known, ...opened });
        },
        refused: (refusal) => {
          this.#connections.delete(connection);
          reportRejected(this.#metrics, this.#log, { ...known, ...refusal });
        },
        closed: (why, reason) => {
          this.#connections.delete(connection);
          this.#metrics.closed('amqp', reason);
          const seconds = Math.round((Date.now() - openedMs) / 1_000);
          this.#log.write('connection closed', { ...known, ...opened, seconds, reason, why });
        },
        published: (count) => {
          tally.published += count;
        },
        settled: (result, count) => {
          tally[result] += count;
        },
        delivered: (count) => {
          tally.delivered += count;
        },
      },
    );
    this.#connections.add(connection);
  }

  /** Closes every client with 320, so that it reconnects. */
  stop(): void {
    for (const connection of this.#connections) {
      connection.shutdown("broker forced connection closure with reason 'shutdown'");
    }
  }
}
