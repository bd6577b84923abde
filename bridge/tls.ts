/** TLS towards clients: 1.2 or later, no Nagle delay, TCP keep-alive, and no socket that waits for ever. */
import { constants } from 'node:crypto';
import type { Server, Socket } from 'node:net';
import { createServer, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { LIMIT } from '../protocol/limits.ts';
import { type HandshakeReason, handshakeReason } from './handshake-reasons.ts';
import { ProxiedListener, type Proxies, peerAddress } from './proxied.ts';
import type { TlsMaterial } from './tls-files.ts';

const KEEPALIVE_MS = 30_000;

/** A client's own certificate, which the handshake has proved. */
export interface ClientCertificate {
  commonName: string;
  /** SHA-256 in lower-case hex. */
  fingerprint: string;
}

/** A handshake that failed; no address where the client was gone before anybody could look. */
export interface HandshakeFailure {
  reason: HandshakeReason;
  /** Of OpenSSL, of the verification of a certificate, or of the socket. */
  code: string;
  address: string | undefined;
}

export interface TlsListenerOptions {
  /** Every client must have a certificate of the authority in the files. */
  demandsCertificate?: boolean;
  /** What these tell of their clients' addresses is believed; without any, nothing is read before TLS. */
  proxies?: Proxies;
  failed?: (failure: HandshakeFailure) => void;
}

export interface TlsListener {
  server: Server;
  /** For handshakes from here on: connections that stand go on. */
  renew(material: TlsMaterial): void;
}

export function createTlsListener(
  material: TlsMaterial,
  onClient: (socket: TLSSocket, address: string, certificate?: ClientCertificate) => void,
  { demandsCertificate = false, proxies, failed = () => {} }: TlsListenerOptions = {},
): TlsListener {
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
        onClient(socket, address, certificate);
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
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
    const address = clientOf(socket);
    // Node ends a client whose certificate it does not trust without an error of its own.
    const untrusted = socket.authorizationError as unknown as string | null;
    const code = untrusted ?? error.code ?? error.message;
    const reason = handshakeReason(code, untrusted !== null);
    const tell = () => failed({ reason, code, address: address ?? closing()?.address });
    // Whose peer has reset it tells no address any more: what closes below it still knows.
    if (address === undefined && !closing()) socket.once('close', tell);
    else tell();
    socket.destroy();
  });
  return {
    server: proxied?.server ?? server,
    renew: (renewed) => server.setSecureContext(contextOf(renewed, demandsCertificate)),
  };
}

/** A certificate is demanded in each handshake: no session is taken up again without one. */
function contextOf({ cert, key, ca }: TlsMaterial, demandsCertificate: boolean): SecureContextOptions {
  const demanding = ca && demandsCertificate ? { ca, secureOptions: constants.SSL_OP_NO_TICKET } : {};
  return { cert, key, minVersion: 'TLSv1.2', ...demanding };
}

/**
 * The client of the connection that closes just now: a TLS socket that has closed tells no address, and that its handshake
 * has failed may be told while the socket below it closes.
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
