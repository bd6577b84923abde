/** TLS towards clients: 1.2 or later, no Nagle delay, TCP keep-alive, and no socket that waits for ever. */
import { readFileSync } from 'node:fs';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { LIMIT } from '../protocol/limits.ts';

const KEEPALIVE_MS = 30_000;

export interface TlsFiles {
  certificate: string;
  key: string;
}

export function createTlsListener(
  files: TlsFiles,
  onClient: (socket: TLSSocket, address: string) => void,
): Server {
  const server = createServer(
    {
      cert: readFileSync(files.certificate),
      key: readFileSync(files.key),
      minVersion: 'TLSv1.2',
      handshakeTimeout: LIMIT.tlsHandshakeMs,
    },
    (socket) => {
      socket.setNoDelay(true);
      socket.setKeepAlive(true, KEEPALIVE_MS);
      onClient(socket, clientAddress(socket));
    },
  );
  // A failed handshake ends its own socket; there is nobody to tell.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

/** IPv4 mapped into IPv6 is told as IPv4. */
function clientAddress(socket: TLSSocket): string {
  return (socket.remoteAddress ?? '').replace(/^::ffff:/i, '').replace(/%.*$/, '');
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
