/**
 * PROXY headers in front of a TLS listener: connections from configured proxies begin with a header that
 * names the client; all other connections go straight to TLS. A header is trusted only because of its source
 * address.
 */
import { createServer, type Server, type Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import { isInRanges } from '../protocol/address-range.ts';
import { LIMIT } from '../protocol/limits.ts';
import { readProxyHeader } from './proxy-header.ts';

export interface Proxies {
  /** Addresses and CIDR ranges. */
  ranges: readonly string[];
  /** Called when a connection from a proxy was closed because it sent no valid header. */
  refused(proxy: string, why: string): void;
}

/** Returns an IPv4-mapped IPv6 address as IPv4, and an IPv6 address without its zone. */
export function peerAddress({ remoteAddress }: Socket): string {
  return (remoteAddress ?? '').replace(/^::ffff:/i, '').replace(/%.*$/, '');
}

export class ProxiedListener {
  /** The server that listens; it passes connections to the TLS server. */
  readonly server: Server;
  readonly #tls: TlsServer;
  readonly #proxies: Proxies;
  /**
   * The client of each proxied connection, by the addresses and ports of its TCP socket (`endsOf`), because a
   * TLS socket does not expose the TCP socket below it.
   */
  readonly #clients = new Map<string, { address: string }>();

  constructor(tls: TlsServer, proxies: Proxies) {
    this.#tls = tls;
    this.#proxies = proxies;
    this.server = createServer((socket) => this.#accept(socket));
  }

  /** The client address of a connection; undefined if it is no longer known because the peer has gone. */
  clientOf(socket: Socket): string | undefined {
    const peer = peerAddress(socket);
    const client = this.#clients.get(endsOf(socket))?.address;
    return client ?? (peer === '' || this.#isProxy(peer) ? undefined : peer);
  }

  #isProxy(address: string): boolean {
    return isInRanges(address, this.#proxies.ranges);
  }

  #accept(socket: Socket): void {
    const peer = peerAddress(socket);
    if (!this.#isProxy(peer)) {
      this.#tls.emit('connection', socket);
      return;
    }
    const refuse = (why: string) => {
      socket.destroy();
      this.#proxies.refused(peer, why);
    };
    takeHeader(socket, refuse, (address = peer) => {
      const ends = endsOf(socket);
      const client = { address };
      this.#clients.set(ends, client);
      socket.once('close', () => {
        if (this.#clients.get(ends) === client) this.#clients.delete(ends);
      });
      this.#tls.emit('connection', socket);
    });
  }
}

/** A key for a TCP connection; the same for the TCP socket and for the TLS socket on it. */
export function endsOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}

/** Reads the header from a socket and leaves the bytes after it. Has the time limit of a TLS handshake. */
function takeHeader(
  socket: Socket,
  refuse: (why: string) => void,
  taken: (address: string | undefined) => void,
): void {
  let bytes: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => stop(() => refuse('no complete header in time')), LIMIT.tlsHandshakeMs);
  const stop = (then: () => void) => {
    clearTimeout(timer);
    socket.off('data', onData).off('end', onGone).off('error', onGone);
    // Ignores errors of the socket until TLS adds its own handler, and those of a rejected socket.
    socket.on('error', () => {});
    then();
  };
  const onData = (chunk: Buffer) => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    const header = readProxyHeader(bytes);
    if (header.is === 'partial') return;
    stop(() => {
      if (header.is === 'wrong') {
        refuse(header.why);
        return;
      }
      socket.pause();
      const rest = bytes.subarray(header.length);
      if (rest.length > 0) socket.unshift(rest);
      taken(header.address);
    });
  };
  const onGone = () => {
    // A port check closes without sending a byte; that is not a failure.
    if (bytes.length > 0) stop(() => refuse('connection closed in the middle of the header'));
    else stop(() => socket.destroy());
  };
  socket.on('data', onData).on('end', onGone).on('error', onGone);
}
