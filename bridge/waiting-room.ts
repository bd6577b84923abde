/**
 * Connections whose client has not sent a login yet [C-14.6]: limits their number per client network and in
 * total. At a limit the oldest of them is closed, so that silent connections never prevent a client from
 * logging in that sends its login at once. Those with a finished TLS handshake have an additional, lower
 * limit, because TLS needs five times the memory of a plain connection.
 */
import type { Socket } from 'node:net';
import { networkOf } from '../protocol/address-range.ts';
import { LIMIT } from '../protocol/limits.ts';

interface Entry {
  socket: Socket;
  network: string;
}

/** The calls with which a listener reports the progress of a waiting connection. */
export interface Waiting {
  /** The TLS handshake has finished. */
  hasTls: () => void;
  /** The client has sent a login: the connection is no longer counted. */
  hasLogin: () => void;
}

export class WaitingRoom {
  /** All waiting connections in the order of their arrival; the set of each network has the same order. */
  readonly #entries = new Set<Entry>();
  readonly #networks = new Map<string, Set<Entry>>();
  /** The waiting connections with a finished TLS handshake, ordered by its end. */
  readonly #withTls = new Set<Entry>();
  readonly #closed: (address: string) => void;

  /**
   * `closed` is called when a connection was closed because a limit was reached, with the network of its
   * client.
   */
  constructor(closed: (address: string) => void = () => {}) {
    this.#closed = closed;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Counts a connection until it closes, or until its client has sent a login. */
  enter(socket: Socket, address: string): Waiting {
    const network = networkOf(address);
    const own = this.#networks.get(network) ?? new Set();
    if (own.size >= LIMIT.silentConnectionsPerNetwork) this.#close(own);
    else if (this.#entries.size >= LIMIT.silentConnections) this.#close(this.#entries);
    const entry = { socket, network };
    this.#entries.add(entry);
    this.#networks.set(network, own.add(entry));
    const leave = () => this.#leave(entry);
    socket.once('close', leave);
    return { hasTls: () => this.#hasTls(entry), hasLogin: leave };
  }

  #hasTls(entry: Entry): void {
    if (!this.#entries.has(entry)) return;
    if (this.#withTls.size >= LIMIT.silentTlsConnections) this.#close(this.#withTls);
    this.#withTls.add(entry);
  }

  #close(of: Set<Entry>): void {
    const [oldest] = of;
    if (!oldest) return;
    this.#leave(oldest);
    this.#closed(oldest.network);
    oldest.socket.destroy();
  }

  #leave(entry: Entry): void {
    if (!this.#entries.delete(entry)) return;
    this.#withTls.delete(entry);
    const own = this.#networks.get(entry.network);
    own?.delete(entry);
    if (own?.size === 0) this.#networks.delete(entry.network);
  }
}
