/** TLS towards clients: 1.2 or later, no Nagle delay, TCP keep-alive, and no socket that waits for ever. */
import { constants } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { LIMIT } from '../protocol/limits.ts';
import { ProxiedListener, type Proxies, peerAddress } from './proxied.ts';

const KEEPALIVE_MS = 30_000;

export interface TlsFiles {
  certificate: string;
  key: string;
  /** The authority of client certificates: a client must have one of it. */
  clientAuthority?: string;
}

/** A client's own certificate, which the handshake has proved. */
export interface ClientCertificate {
  commonName: string;
  /** SHA-256 in lower-case hex. */
  fingerprint: string;
}

/** What `proxies` tell of their clients' addresses is believed; without any, nothing is read before TLS. */
export function createTlsListener(
  files: TlsFiles,
  onClient: (socket: TLSSocket, address: string, certificate?: ClientCertificate) => void,
  proxies?: Proxies,
): Server {
  const server = createServer(
    {
      cert: readFileSync(files.certificate),
      key: readFileSync(files.key),
      minVersion: 'TLSv1.2',
      handshakeTimeout: LIMIT.tlsHandshakeMs,
      ...(files.clientAuthority ? demanding(files.clientAuthority) : {}),
    },
    (socket) => {
      socket.setNoDelay(true);
      socket.setKeepAlive(true, KEEPALIVE_MS);
      const address = proxied ? proxied.clientOf(socket) : peerAddress(socket);
      if (address === undefined) {
        socket.destroy();
        return;
      }
      if (!files.clientAuthority) {
        onClient(socket, address);
        return;
      }
      const certificate = certificateOf(socket);
      if (certificate) onClient(socket, address, certificate);
      else socket.destroy();
    },
  );
  // A failed handshake ends its own socket; there is nobody to tell.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  const proxied = proxies && proxies.ranges.length > 0 ? new ProxiedListener(server, proxies) : undefined;
  return proxied?.server ?? server;
}

/** A certificate of that authority that is good today, in each handshake: no session is taken up again without one. */
function demanding(clientAuthority: string) {
  return {
    ca: readFileSync(clientAuthority),
    requestCert: true,
    rejectUnauthorized: true,
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
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
