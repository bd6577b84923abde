/**
 * TLS to the edge: all links share one context, and each new link resumes the last session. With a separate
 * context and a full handshake per link, each idle client took about 16 KB more.
 */
import { isIP } from 'node:net';
import { connect, createSecureContext, type SecureContext } from 'node:tls';
import type { ClientOptions } from 'ws';

let context: SecureContext | undefined;
/** The last TLS session of each edge, by its URL; a bridge has one edge. */
const sessions = new Map<string, Buffer>();

/**
 * Connection options for a dial of this edge; empty without TLS. A TLS socket holds its connection options in
 * memory until it closes. Therefore the options contain only the address, and not the request, whose headers
 * contain a credential.
 */
export function edgeTls(edgeUrl: string): Pick<ClientOptions, 'createConnection'> {
  if (!edgeUrl.startsWith('https:')) return {};
  context ??= createSecureContext();
  const secureContext = context;
  const createConnection = () => {
    const { hostname, port } = new URL(edgeUrl);
    const host = hostname.replace(/^\[|\]$/g, '');
    const servername = isIP(host) ? '' : host;
    const session = sessions.get(edgeUrl);
    const socket = connect({ host, port: Number(port || 443), servername, secureContext, session });
    socket.on('session', (ticket: Buffer) => sessions.set(edgeUrl, ticket));
    return socket;
  };
  return { createConnection };
}
