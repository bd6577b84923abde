/** The AMQP clients of this process: connects each TLS socket to its link, and closes them all at the end. */
import { randomUUID } from 'node:crypto';
import { type VhostLinkDown, type VhostLinkUp, vhostLinkDown } from '../protocol/link/vhost.ts';
import { AmqpConnection } from './amqp/connection.ts';
import { ConnectionReport } from './connection-report.ts';
import type { Door } from './door.ts';
import type { BridgeLog } from './log.ts';
import type { Metrics } from './metrics.ts';
import type { TlsClient } from './tls.ts';

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

  accept({ socket, address, hasLogin }: TlsClient): void {
    const client = { protocol: 'amqp', connection: randomUUID(), address } as const;
    const connection = new AmqpConnection(
      socket,
      (credential) => {
        hasLogin();
        return this.#door.dial<VhostLinkUp, VhostLinkDown>(
          'amqp',
          { ...credential, connection: client.connection, address, fingerprint: '' },
          vhostLinkDown,
          () => socket.destroyed,
        );
      },
      new ConnectionReport(this.#metrics, this.#log, client),
    );
    this.#connections.add(connection);
    socket.once('close', () => this.#connections.delete(connection));
  }

  /** Closes every client with 320, so that it reconnects. */
  stop(): void {
    for (const connection of this.#connections) {
      connection.shutdown("broker forced connection closure with reason 'shutdown'");
    }
  }
}
