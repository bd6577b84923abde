/**
 * Before a TLS listener: connections of configured proxies begin with a PROXY header, which names the client; all
 * others go on to TLS as they are. A header is believed because of the address that it comes from, and for nothing else.
 */
import { createServer, type Server, type Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import { isInRanges } from '../protocol/address-range.ts';
import { LIMIT } from '../protocol/limits.ts';
import { readProxyHeader } from './proxy-header.ts';

export interface Proxies {
  /** Addresses and CIDR ranges. */
  ranges: readonly string[];
  /** A proxy's connection was closed, having sent no header that is good. */
  refused(proxy: string, why: string): void;
}

/** IPv4 mapped into IPv6 is told as IPv4; no zone. */
export function peerAddress({ remoteAddress }: Socket): string {
  return (remoteAddress ?? '').replace(/^::ffff:/i, '').replace(/%.*$/, '');
}

export class ProxiedListener {
  /** Listens in the place of the TLS server. */
  readonly server: Server;
  readonly #tls: TlsServer;
  readonly #proxies: Proxies;
  /** Of connections of proxies, by their two ends: a TLS socket does not say which socket carries it. */
  readonly #clients = new Map<string, { address: string }>();

  constructor(tls: TlsServer, proxies: Proxies) {
    this.#tls = tls;
    this.#proxies = proxies;
    this.server = createServer((socket) => this.#accept(socket));
  }

  /** Whose connection it is. Undefined where nobody can tell any more: its peer has gone. */
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

function endsOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}

/** Reads a header off a socket; what follows it is left there. For as long as a TLS handshake may take. */
function takeHeader(
  socket: Socket,
  refuse: (why: string) => void,
  taken: (address: string | undefined) => void,
): void {
  let bytes: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => stop(() => refuse('no whole header in time')), LIMIT.tlsHandshakeMs);
  const stop = (then: () => void) => {
    clearTimeout(timer);
    socket.off('data', onData).off('end', onGone).off('error', onGone);
    // TLS has its own handler; a socket that is refused has nobody to tell.
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
    // Who looks whether the port is open says nothing, and is no trouble.
    if (bytes.length > 0) stop(() => refuse('it went amid its header'));
    else stop(() => socket.destroy());
  };
  socket.on('data', onData).on('end', onGone).on('error', onGone);
}
