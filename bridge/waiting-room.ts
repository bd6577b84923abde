/**
 * Connections whose client has not sent a login yet [C-14.6]: at most so many of one network and in all. Where there is
 * no room the oldest is closed, so that silent connections never keep out a client that logs in at once.
 */
import type { Socket } from 'node:net';
import { networkOf } from '../protocol/address-range.ts';
import { LIMIT } from '../protocol/limits.ts';

interface Entry {
  socket: Socket;
  network: string;
}

export class WaitingRoom {
  /** In the order of their arrival; so is each network's own set. */
  readonly #entries = new Set<Entry>();
  readonly #networks = new Map<string, Set<Entry>>();
  readonly #closed: (address: string) => void;

  /** `closed`: a connection was closed to make room. */
  constructor(closed: (address: string) => void = () => {}) {
    this.#closed = closed;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Counts a connection until it closes, or until the returned function is called: its client has sent a login. */
  enter(socket: Socket, address: string): () => void {
    const network = networkOf(address);
    const own = this.#networks.get(network) ?? new Set();
    if (own.size >= LIMIT.silentConnectionsPerNetwork) this.#close(own);
    else if (this.#entries.size >= LIMIT.silentConnections) this.#close(this.#entries);
    const entry = { socket, network };
    this.#entries.add(entry);
    this.#networks.set(network, own.add(entry));
    const leave = () => this.#leave(entry);
    socket.once('close', leave);
    return leave;
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
    const own = this.#networks.get(entry.network);
    own?.delete(entry);
    if (own?.size === 0) this.#networks.delete(entry.network);
  }
}
