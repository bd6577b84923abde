/**
 * TLS towards the edge: one context for all links, and the last session, which the next link takes up again. With a
 * context and a whole handshake of its own each idle client took some 16 KB more (docs/performance.md, Devices).
 */
import { isIP } from 'node:net';
import { connect, createSecureContext, type SecureContext } from 'node:tls';
import type { ClientOptions } from 'ws';

let context: SecureContext | undefined;
/** The session that each edge gave last, by its URL: a bridge has one edge. */
const sessions = new Map<string, Buffer>();

/**
 * How a dial of that edge connects; nothing where it is not over TLS. A TLS socket keeps what it was connected with for
 * as long as it lives: here that is an address, and not the request with its headers, which carry a credential.
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
