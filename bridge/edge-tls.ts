/**
 * TLS towards the edge: one context for all links, and the last session, which the next link takes up again. With a
 * context and a whole handshake of its own each idle client took some 16 KB more (docs/performance.md, Devices).
 */
import type { ClientRequest } from 'node:http';
import { createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import type { ClientOptions } from 'ws';

let context: SecureContext | undefined;
/** The session that each edge gave last, by its URL: a bridge has one edge. */
const sessions = new Map<string, Buffer>();

/** What a dial of that edge has beside its headers; nothing where it is not over TLS. */
export function edgeTls(edgeUrl: string): ClientOptions {
  if (!edgeUrl.startsWith('https:')) return {};
  context ??= createSecureContext();
  const shared = { secureContext: context, session: sessions.get(edgeUrl) };
  const finishRequest = (request: ClientRequest) => {
    request.once('socket', (socket) => {
      (socket as TLSSocket).on('session', (session: Buffer) => sessions.set(edgeUrl, session));
    });
    request.end();
  };
  return Object.assign<ClientOptions, typeof shared>({ finishRequest }, shared);
}
