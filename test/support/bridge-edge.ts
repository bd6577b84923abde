/**
 * A test's edge: a real HTTP and WebSocket server on 127.0.0.1 in place of the Worker and its objects. It
 * checks the bridge's proof as the Worker does, and validates every frame with the link's schema.
 */
import { createHmac } from 'node:crypto';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type * as z from 'zod';
import type { Edge } from '../../bridge/proof.ts';
import { type ApiErrorCode, errorBody } from '../../protocol/errors.ts';
import { parseFrames } from '../../protocol/link/batch.ts';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkUp } from '../../protocol/link/device.ts';
import { CLOSE_CODES, PING, PONG } from '../../protocol/link/live.ts';
import {
  type BridgeProof,
  LINK_PATHS,
  PROOF_HEADER,
  parseProof,
  proofSigningString,
  READY_PATH,
  SCOPES_HEADER,
  VHOST_HEADER,
} from '../../protocol/link/proof.ts';
import { type VhostLinkDown, type VhostLinkUp, vhostLinkUp } from '../../protocol/link/vhost.ts';
import { API_KEY_SCOPES } from '../../protocol/scopes.ts';
import { Signal } from './bridge-signal.ts';

export const SECRET = 'a-bridge-secret-of-thirty-two-characters';
export const VHOST = 'partner-k1';
/** The answer for every path that does not exist. */
const NOT_FOUND = JSON.stringify(errorBody('NOT_FOUND', 'not found'));

/** One dial as it arrived. */
export interface Dialed {
  path: string;
  username: string;
  password: string;
  proof: BridgeProof;
  headers: IncomingHttpHeaders;
}

export type Answer =
  | { accept: Record<string, string> }
  | { status: number; body: string; contentType: string; headers?: Record<string, string> }
  | 'never';

/** A rejection in the Worker's error envelope. */
export function envelope(
  code: ApiErrorCode,
  message = 'refused',
  status?: number,
  headers: Record<string, string> = {},
): Answer {
  const body = errorBody(code, message, undefined, status);
  return { status: body.statusCode, body: JSON.stringify(body), contentType: 'application/json', headers };
}

export const FIREWALL: Answer = { status: 403, body: '<html>blocked</html>', contentType: 'text/html' };

/** Answers that decide no login. */
export const UNDECIDED: [name: string, answer: Answer][] = [
  ['500', envelope('INTERNAL_SERVER_ERROR')],
  ['503', envelope('SERVICE_UNAVAILABLE')],
  ['429', envelope('TOO_MANY_REQUESTS')],
  ['404', envelope('NOT_FOUND')],
  ['a firewall’s HTML 403', FIREWALL],
  ['a 403 of another’s JSON', { status: 403, body: '{"code":"BLOCKED"}', contentType: 'application/json' }],
];

function accepted(): Answer {
  return { accept: { [VHOST_HEADER]: VHOST, [SCOPES_HEADER]: API_KEY_SCOPES.join(',') } };
}

/** The object's end of one link. */
export class EdgeLink<Up extends { kind: string }, Down> {
  readonly socket: WebSocket;
  /** One entry per message, without its `open` frames. */
  readonly batches: Up[][] = [];
  /** All `open` frames. */
  readonly opened: Up[] = [];
  pings = 0;
  /** Whether pings are answered. */
  alive = true;
  closedWith: { code: number; reason: string } | undefined;
  readonly #untaken: Up[] = [];
  readonly #signal = new Signal();

  constructor(socket: WebSocket, schema: z.ZodType<Up>) {
    this.socket = socket;
    socket.on('message', (data) => {
      const text = data.toString();
      if (text === PING) {
        this.pings += 1;
        if (this.alive) socket.send(PONG);
      } else {
        const frames = parseFrames(schema, text);
        if (!frames.ok) throw new Error(`the bridge sent unreadable frames: ${frames.refusal}`);
        const opens = frames.value.filter((frame) => frame.kind === 'open');
        const others = frames.value.filter((frame) => frame.kind !== 'open');
        this.opened.push(...opens);
        if (others.length > 0) this.batches.push(others);
        this.#untaken.push(...others);
      }
      this.#signal.changed();
    });
    socket.on('close', (code, reason) => {
      this.closedWith = { code, reason: reason.toString() };
      this.#signal.changed();
    });
  }

  /** All frames so far, without `open`. */
  get received(): Up[] {
    return this.batches.flat();
  }

  /** The publishes of the messages since the last call, which it removes from `batches`. */
  takePublishes(): Extract<Up, { kind: 'publish' }>[] {
    const frames = this.batches.splice(0).flat();
    return frames.filter((frame): frame is Extract<Up, { kind: 'publish' }> => frame.kind === 'publish');
  }

  /** Sends one message with these frames. */
  send(...frames: Down[]): void {
    this.socket.send(JSON.stringify(frames));
  }

  /** Resolves with the oldest frame of a kind that was not yet taken. */
  take<Kind extends Up['kind']>(kind: Kind): Promise<Extract<Up, { kind: Kind }>> {
    return this.#signal.until(() => {
      const index = this.#untaken.findIndex((frame) => frame.kind === kind);
      if (index >= 0) return this.#untaken.splice(index, 1)[0] as Extract<Up, { kind: Kind }>;
      if (this.closedWith) throw new Error(`the link closed before a ${kind}`);
      return undefined;
    });
  }

  /** Takes the next publish and answers that it is stored. */
  async store(): Promise<Extract<Up, { kind: 'publish' }>> {
    const publish = (await this.take<Up['kind']>('publish')) as Extract<Up, { kind: 'publish' }>;
    const { seq } = publish as unknown as { seq: number };
    this.socket.send(JSON.stringify([{ kind: 'stored', seqs: [seq] }]));
    return publish;
  }

  untilBatches(count: number): Promise<Up[][]> {
    return this.#signal.until(() => (this.batches.length >= count ? this.batches : undefined));
  }

  untilPings(count: number): Promise<true> {
    return this.#signal.until(() => (this.pings >= count ? true : undefined));
  }

  close(code = 1000, reason = ''): void {
    this.socket.close(code, reason);
  }

  /** Says goodbye and stops reading, so that the object never answers a close of the WebSocket. */
  sayGoodbye(code: number = CLOSE_CODES.revoked, reason = 'revoked'): void {
    this.socket.send(JSON.stringify([{ kind: 'goodbye', code, reason }]));
    this.socket.pause();
  }

  /** Reads again and resolves with the close code; 1006 is a socket that went without a close handshake. */
  async closeCode(): Promise<number> {
    this.socket.resume();
    return (await this.untilClosed()).code;
  }

  untilClosed(): Promise<{ code: number; reason: string }> {
    return this.#signal.until(() => this.closedWith);
  }
}

export type VhostEdgeLink = EdgeLink<VhostLinkUp, VhostLinkDown>;
export type DeviceEdgeLink = EdgeLink<DeviceLinkUp, DeviceLinkDown>;

export class TestEdge {
  readonly dialed: Dialed[] = [];
  /** The answer to the next dials. */
  answer: (dial: Dialed) => Answer | Promise<Answer> = accepted;
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({ noServer: true });
  readonly #streams = new Set<Duplex>();
  readonly #vhostLinks: VhostEdgeLink[] = [];
  readonly #deviceLinks: DeviceEdgeLink[] = [];
  readonly #headers = new WeakMap<IncomingMessage, Record<string, string>>();
  readonly #signal = new Signal();

  private constructor() {
    this.#server = createServer((request, response) => {
      const isReady = request.url === READY_PATH && readDial(request, [READY_PATH]) !== undefined;
      if (isReady) response.writeHead(204).end();
      else response.writeHead(404, { 'content-type': 'application/json' }).end(NOT_FOUND);
    });
    this.#server.on('upgrade', (request, stream, head) => void this.#upgrade(request, stream, head));
    this.#sockets.on('headers', (headers, request) => {
      for (const [name, value] of Object.entries(this.#headers.get(request) ?? {}))
        headers.push(`${name}: ${value}`);
    });
  }

  static async start(): Promise<TestEdge> {
    const edge = new TestEdge();
    await new Promise<void>((resolve) => edge.#server.listen(0, '127.0.0.1', resolve));
    return edge;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The edge as a bridge's configuration describes it. */
  get forBridge(): Edge {
    return { url: this.url, secret: SECRET, bridge: 'bridge-test', boot: 'boot-1' };
  }

  /** Resolves with the next link of a partner. */
  vhostLink(): Promise<VhostEdgeLink> {
    return this.#signal.until(() => this.#vhostLinks.shift());
  }

  /** Resolves with the next link of a device. */
  deviceLink(): Promise<DeviceEdgeLink> {
    return this.#signal.until(() => this.#deviceLinks.shift());
  }

  untilDialed(count = 1): Promise<true> {
    return this.#signal.until(() => (this.dialed.length >= count ? true : undefined));
  }

  /** Accepts every dial again, and forgets all earlier dials and links. */
  reset(): void {
    this.answer = accepted;
    this.dialed.length = 0;
    this.#vhostLinks.length = 0;
    this.#deviceLinks.length = 0;
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const stream of this.#streams) stream.destroy();
    this.#server.closeAllConnections();
    await closed;
  }

  async #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): Promise<void> {
    this.#streams.add(stream);
    stream.on('error', () => {});
    const dial = readDial(request);
    if (dial) this.dialed.push(dial);
    this.#signal.changed();
    const answer = dial ? await this.answer(dial) : envelope('NOT_FOUND');
    if (answer === 'never') return;
    if ('status' in answer) {
      const { status, body, contentType, headers: more = {} } = answer;
      const lines = { 'content-type': contentType, 'content-length': Buffer.byteLength(body), ...more };
      const headers = [
        ...Object.entries(lines).map(([name, value]) => `${name}: ${value}`),
        'connection: close',
      ].join('\r\n');
      stream.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers}\r\n\r\n${body}`);
      return;
    }
    this.#headers.set(request, answer.accept);
    this.#sockets.handleUpgrade(request, stream, head, (socket) => {
      if (request.url === LINK_PATHS.amqp) this.#vhostLinks.push(new EdgeLink(socket, vhostLinkUp));
      else this.#deviceLinks.push(new EdgeLink(socket, deviceLinkUp));
      this.#signal.changed();
    });
  }
}

/** Returns undefined without a valid proof: the path then does not exist (rule 1). */
function readDial(
  request: IncomingMessage,
  paths: readonly string[] = Object.values(LINK_PATHS),
): Dialed | undefined {
  const path = request.url ?? '';
  const authorization = request.headers.authorization ?? '';
  const parsed = parseProof(String(request.headers[PROOF_HEADER]));
  if (!parsed || !paths.includes(path)) return undefined;
  const text = proofSigningString(parsed.proof, path, authorization);
  if (createHmac('sha256', SECRET).update(text).digest('hex') !== parsed.mac) return undefined;
  const userinfo = Buffer.from(authorization.replace('Basic ', ''), 'base64').toString('utf8');
  const colon = userinfo.indexOf(':');
  return {
    path,
    username: userinfo.slice(0, colon),
    password: userinfo.slice(colon + 1),
    proof: parsed.proof,
    headers: request.headers,
  };
}
