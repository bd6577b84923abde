/**
 * Connections whose client has not sent a login yet [C-14.6]: at most so many of one network and in all. Where there is
 * no room the oldest is closed, so that silent connections never keep out a client that logs in at once. Connections with
 * TLS have a lower bound of their own, because TLS costs five times the memory of the connection.
 */
import type { Socket } from 'node:net';
import { networkOf } from '../protocol/address-range.ts';
import { LIMIT } from '../protocol/limits.ts';

interface Entry {
  socket: Socket;
  network: string;
}

/** What a listener reports of a connection that waits. */
export interface Waiting {
  /** The TLS handshake is done. */
  hasTls: () => void;
  /** The client has sent a login: the connection waits no longer. */
  hasLogin: () => void;
}

export class WaitingRoom {
  /** In the order of their arrival; so is each network's own set. */
  readonly #entries = new Set<Entry>();
  readonly #networks = new Map<string, Set<Entry>>();
  /** Those with TLS, in the order of their handshakes. */
  readonly #withTls = new Set<Entry>();
  readonly #closed: (address: string) => void;

  /** `closed`: a connection was closed to make room. */
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
