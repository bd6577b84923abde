/** The dial of a link: a WebSocket upgrade, which authenticates the client and this bridge. */
import { randomUUID } from 'node:crypto';
import { type ClientOptions, WebSocket } from 'ws';
import type * as z from 'zod';
import { MAX_BATCH_CHARS } from '../protocol/link/batch.ts';
import { LINK_PATHS } from '../protocol/link/proof.ts';
import { edgeTls } from './edge-tls.ts';
import { type Answered, Link } from './link.ts';
import { type Edge, proofHeaders } from './proof.ts';
import { judgeRefusal, type NoLink } from './refusal.ts';

const DIAL_TIMEOUT_MS = 8_000;
/** About this much of the body of a rejected dial is read at most; the error envelopes of the edge are shorter. */
const MAX_REFUSAL_CHARS = 4_096;

/** The client that a link is dialled for. */
export interface LinkCredential {
  username: string;
  password: string;
  /** Connection id in the log and at the edge; by default a new UUID. */
  connection?: string;
  address: string;
  /** SHA-256 of the client certificate in hex; empty without one. */
  fingerprint: string;
  /** The nonce of a new key's probe; empty for all other clients. */
  probe?: string;
}

export type DialResult<Up, Down> =
  | { outcome: 'accepted'; link: Link<Up, Down>; headers: Record<string, string> }
  | NoLink;

/** Dials the object of a client. The credential is kept in memory only during the dial. */
export function dial<Up, Down>(
  edge: Edge,
  protocol: keyof typeof LINK_PATHS,
  credential: LinkCredential,
  schema: z.ZodType<Down>,
  answered?: Answered,
): Promise<DialResult<Up, Down>> {
  const path = LINK_PATHS[protocol];
  const userinfo = Buffer.from(`${credential.username}:${credential.password}`).toString('base64');
  const authorization = `Basic ${userinfo}`;
  const { connection = randomUUID(), address, fingerprint, probe = '' } = credential;
  const url = `${edge.url.replace(/^http/, 'ws').replace(/\/$/, '')}${path}`;

  return new Promise((done) => {
    const options: ClientOptions = {
      ...edgeTls(edge.url),
      headers: {
        authorization,
        ...proofHeaders(edge, path, authorization, { connection, address, fingerprint, probe }),
      },
      perMessageDeflate: false,
      handshakeTimeout: DIAL_TIMEOUT_MS,
      maxPayload: 4 * MAX_BATCH_CHARS + 2 * 1024 * 1024,
    };
    const socket = new WebSocket(url, options);
    const resolve = (result: DialResult<Up, Down>) => {
      clearTimeout(deadline);
      done(result);
    };
    const fail = (error: Error) => resolve({ outcome: 'trouble', reason: error.message });
    let headers: Record<string, string> = {};
    let link: Link<Up, Down> | undefined;
    // Covers the whole dial, including the body of a rejection.
    const deadline = setTimeout(() => {
      resolve({ outcome: 'trouble', reason: `no answer from the edge within ${DIAL_TIMEOUT_MS / 1_000} s` });
      socket.terminate();
    }, DIAL_TIMEOUT_MS);
    socket.on('upgrade', (response) => {
      headers = response.headers as Record<string, string>;
      link = new Link(socket, schema, protocol, answered);
    });
    socket.on('open', () => {
      // Removes the listeners of the dial: they would hold the credential in memory as long as the link is open.
      for (const event of ['upgrade', 'open', 'unexpected-response']) socket.removeAllListeners(event);
      socket.off('error', fail);
      if (link) resolve({ outcome: 'accepted', link, headers });
    });
    socket.on('error', fail);
    socket.on('unexpected-response', (_request, response) => {
      let body = '';
      response.setEncoding('utf8');
      const judge = () => {
        resolve(judgeRefusal({ status: response.statusCode ?? 0, headers: response.headers, body }));
        socket.terminate();
      };
      response.on('data', (part: string) => {
        body += part;
        if (body.length >= MAX_REFUSAL_CHARS) judge();
      });
      response.on('end', judge);
      response.on('error', () =>
        resolve({ outcome: 'trouble', reason: 'the edge closed the connection in the middle of its answer' }),
      );
    });
  });
}
