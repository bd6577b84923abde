/** The TLS listeners for clients: TLS 1.2 or later, TCP_NODELAY, TCP keep-alive and a handshake timeout. */
import { constants } from 'node:crypto';
import type { Server, Socket } from 'node:net';
import { createServer, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { LIMIT } from '../protocol/limits.ts';
import { type HandshakeReason, handshakeReason } from './handshake-reasons.ts';
import { endsOf, ProxiedListener, type Proxies, peerAddress } from './proxied.ts';
import type { TlsMaterial } from './tls-files.ts';
import type { Waiting, WaitingRoom } from './waiting-room.ts';

const KEEPALIVE_MS = 30_000;

/** A client certificate that the TLS handshake has verified. */
export interface ClientCertificate {
  commonName: string;
  /** SHA-256 in lower-case hex. */
  fingerprint: string;
}

/** A failed handshake; `address` is undefined if the client was gone before its address was read. */
export interface HandshakeFailure {
  reason: HandshakeReason;
  /** Code from OpenSSL, from the certificate verification or from the socket, or `no common name`. */
  code: string;
  address: string | undefined;
}

export interface TlsListenerOptions {
  /** Every client must present a certificate issued by the CA in the files. */
  demandsCertificate?: boolean;
  /** Proxies whose PROXY headers are trusted; without any, no bytes are read before TLS. */
  proxies?: Proxies;
  failed?: (failure: HandshakeFailure) => void;
  /** Bounds the connections whose clients have not sent a login yet. */
  waitingRoom?: WaitingRoom;
}

/** A client whose handshake has succeeded. */
export interface TlsClient {
  socket: TLSSocket;
  address: string;
  certificate?: ClientCertificate;
  /** Called when the client has sent its login: it is no longer one of the silent connections. */
  hasLogin: () => void;
}

export interface TlsListener {
  server: Server;
  /** New handshakes use this material; open connections are not affected. */
  renew(material: TlsMaterial): void;
}

export function createTlsListener(
  material: TlsMaterial,
  onClient: (client: TlsClient) => void,
  { demandsCertificate = false, proxies, failed = () => {}, waitingRoom }: TlsListenerOptions = {},
): TlsListener {
  /**
   * The waiting-room entry of each TCP connection until it closes, by `endsOf`; the TLS socket finds its entry here
   * after the handshake.
   */
  const entries = new Map<string, Waiting>();
  const server = createServer(
    {
      ...contextOf(material, demandsCertificate),
      handshakeTimeout: LIMIT.tlsHandshakeMs,
      ...(demandsCertificate ? { requestCert: true, rejectUnauthorized: true } : {}),
    },
    (socket) => {
      socket.setNoDelay(true);
      socket.setKeepAlive(true, KEEPALIVE_MS);
      const address = clientOf(socket);
      const certificate = demandsCertificate ? certificateOf(socket) : undefined;
      if (address !== undefined && (certificate || !demandsCertificate)) {
        const waiting = entries.get(endsOf(socket));
        waiting?.hasTls();
        const hasLogin = waiting?.hasLogin ?? (() => {});
        onClient({ socket, address, hasLogin, ...(certificate ? { certificate } : {}) });
        return;
      }
      socket.destroy();
      if (address !== undefined) failed({ reason: 'nameless-certificate', code: 'no common name', address });
    },
  );
  const proxied = proxies && proxies.ranges.length > 0 ? new ProxiedListener(server, proxies) : undefined;
  const clientOf = (socket: Socket) =>
    proxied ? proxied.clientOf(socket) : peerAddress(socket) || undefined;
  const closing = addressOfClosing(server, clientOf);
  server.on('connection', (socket: Socket) => {
    const address = clientOf(socket);
    if (!waitingRoom || address === undefined) return;
    const ends = endsOf(socket);
    entries.set(ends, waitingRoom.enter(socket, address));
    socket.once('close', () => entries.delete(ends));
  });
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
    const address = clientOf(socket);
    // For an untrusted client certificate Node sets only `authorizationError`; the error itself has no
    // specific code.
    const untrusted = socket.authorizationError as unknown as string | null;
    const code = untrusted ?? error.code ?? error.message;
    const reason = handshakeReason(code, untrusted !== null);
    const report = () => failed({ reason, code, address: address ?? closing()?.address });
    // After a reset the TLS socket has no address. The client's address is then found when the TCP socket
    // below it closes.
    if (address === undefined && !closing()) socket.once('close', report);
    else report();
    socket.destroy();
  });
  return {
    server: proxied?.server ?? server,
    renew: (renewed) => server.setSecureContext(contextOf(renewed, demandsCertificate)),
  };
}

/** OpenSSL's default suites of TLS 1.3, and suites of TLS 1.2 with forward secrecy and authenticated encryption. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

/**
 * Makes the TLS context of a listener. Where certificates are required it disables session tickets, because a
 * client that resumes a session presents no certificate.
 */
function contextOf({ cert, key, ca }: TlsMaterial, demandsCertificate: boolean): SecureContextOptions {
  const demanding = ca && demandsCertificate ? { ca, secureOptions: constants.SSL_OP_NO_TICKET } : {};
  return { cert, key, minVersion: 'TLSv1.2', ciphers: CIPHERS, ...demanding };
}

/**
 * Returns a function that finds the client of the TCP connection that is closing right now. A closed TLS
 * socket no longer has an address, and Node may report its failed handshake while the TCP socket below it
 * closes.
 */
function addressOfClosing(
  server: Server,
  clientOf: (socket: Socket) => string | undefined,
): () => { address: string | undefined } | undefined {
  let closing: { address: string | undefined } | undefined;
  server.on('connection', (socket: Socket) => {
    const address = clientOf(socket);
    socket.prependOnceListener('close', () => {
      closing = { address };
      queueMicrotask(() => {
        closing = undefined;
      });
    });
  });
  return () => closing;
}

function certificateOf(socket: TLSSocket): ClientCertificate | undefined {
  const certificate = socket.getPeerX509Certificate();
  const commonName = /^CN=(.+)$/m.exec(certificate?.subject ?? '')?.[1];
  if (!certificate || !commonName || !socket.authorized) return undefined;
  return { commonName, fingerprint: certificate.fingerprint256.replaceAll(':', '').toLowerCase() };
}

export function listen(
  server: Server | import('node:http').Server,
  port: number,
  host: string,
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.removeListener('error', reject);
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}
