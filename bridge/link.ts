/**
 * The link of one client: a WebSocket to the object that owns the client. The upgrade authenticates the client
 * and this bridge. When one end closes, the other closes too; the bridge never redials, the client has to
 * reconnect.
 *
 * Batching: if no frame is unanswered, frames are sent at the end of the turn. Otherwise they are collected, and how
 * long depends on the protocol. A device's link has one batch under way: what comes meanwhile travels behind its answer,
 * so that batches grow with the load, unless an urgent frame sends everything at once. A partner's link collects until
 * the next answer or a full batch, but at most for two milliseconds, because the answer of one Site may be late while
 * others would answer at once.
 */
import { randomUUID } from 'node:crypto';
import { type ClientOptions, type RawData, WebSocket } from 'ws';
import type * as z from 'zod';
import { MAX_BATCH_CHARS, MAX_BATCH_FRAMES, packFirst, parseFrames } from '../protocol/link/batch.ts';
import { ANSWER_TIMEOUT_MS, PING, PING_INTERVAL_MS, PONG, SIGN_OF_LIFE_MS } from '../protocol/link/live.ts';
import { LINK_PATHS } from '../protocol/link/proof.ts';
import { edgeTls } from './edge-tls.ts';
import { type Edge, proofHeaders } from './proof.ts';
import { judgeRefusal, type NoLink } from './refusal.ts';

/** A partner's frames are collected no longer than this while an earlier one is unanswered. */
const GATHER_MS = 2;
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

/**
 * Receives the seconds from sending a publish to its answer `stored` or `unstored`: once per answer, for its first
 * publish. Refused publishes are not measured.
 */
export type Answered = (seconds: number) => void;

export interface LinkHandlers<Down> {
  frames(frames: Down[]): void;
  closed(code: number, reason: string): void;
}

/** The interface of a link that the engines use, so that they do not depend on sockets. */
export interface ObjectLink<Up> {
  /** Returns the sequence for a frame that needs an answer. */
  nextSeq(): number;
  /**
   * `awaitsAnswer` is the frame's sequence if the frame needs an answer. An urgent frame, by default one that needs none,
   * waits for no answer to earlier frames.
   */
  send(frame: Up, awaitsAnswer?: number, isUrgent?: boolean): void;
  close(): void;
}

/** The fields of a frame that the link itself reads. */
interface Answerable {
  kind: string;
  seq?: number;
  seqs?: number[];
  /** `code` and `reason` of a goodbye. */
  code?: number;
  reason?: string;
}

export class Link<Up, Down> implements ObjectLink<Up> {
  readonly #socket: WebSocket;
  readonly #schema: z.ZodType<Down>;
  readonly #answered: Answered;
  #handlers: LinkHandlers<Down> | undefined;
  #early: Down[] = [];
  #closedWith: { code: number; reason: string } | undefined;
  #nextSeq = 0;
  readonly #protocol: keyof typeof LINK_PATHS;
  #waiting: Up[] = [];
  /** The sequence of each waiting frame; undefined for a frame that needs no answer. */
  #waitingSeqs: (number | undefined)[] = [];
  /** Whether the flush at the end of this turn sends everything, and not only one message. */
  #isUrgent = false;
  #gather: NodeJS.Timeout | undefined;
  #turn = false;
  /** Unanswered sequences that were sent, oldest first, with the time of each. */
  readonly #unanswered = new Map<number, number>();
  #lastSignMs = Date.now();
  #pingedMs = Date.now();

  constructor(
    socket: WebSocket,
    schema: z.ZodType<Down>,
    protocol: keyof typeof LINK_PATHS,
    answered: Answered = () => {},
  ) {
    this.#socket = socket;
    this.#schema = schema;
    this.#protocol = protocol;
    this.#answered = answered;
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    socket.on('close', (code, reason) => this.#onClose(code, reason.toString()));
    socket.on('error', () => {});
    open.add(this);
  }

  /**
   * Passes all frames to `handlers`, first those that have already arrived, and the close if the link has
   * already closed.
   */
  attach(handlers: LinkHandlers<Down>): void {
    this.#handlers = handlers;
    const early = this.#early;
    this.#early = [];
    if (early.length > 0) handlers.frames(early);
    if (this.#closedWith) handlers.closed(this.#closedWith.code, this.#closedWith.reason);
  }

  nextSeq(): number {
    this.#nextSeq += 1;
    return this.#nextSeq;
  }

  send(frame: Up, awaitsAnswer?: number, isUrgent = awaitsAnswer === undefined): void {
    if (this.#closedWith) return;
    this.#waiting.push(frame);
    this.#waitingSeqs.push(awaitsAnswer);
    const hasWindow = this.#protocol === 'mqtt';
    if (!hasWindow && this.#waiting.length >= MAX_BATCH_FRAMES) this.flush();
    else if (isUrgent) this.#flushSoon(true);
    else if (this.#unanswered.size === 0) this.#flushSoon(!hasWindow);
    else if (!hasWindow) this.#gather ??= setTimeout(() => this.flush(), GATHER_MS);
  }

  close(): void {
    if (this.#closedWith) return;
    this.flush();
    this.#socket.close(1000);
    open.delete(this);
  }

  /** Sends pings, and ends the link if its peer is silent or leaves a frame unanswered for too long. */
  pulse(now: number): void {
    const [oldest] = this.#unanswered.values();
    const isLost = now - this.#lastSignMs > SIGN_OF_LIFE_MS;
    const isStuck = oldest !== undefined && now - oldest > ANSWER_TIMEOUT_MS;
    if (isLost || isStuck) {
      this.#socket.terminate();
      this.#onClose(1006, isLost ? 'no frame or pong from the edge' : 'no answer to a frame from the edge');
      return;
    }
    if (now - this.#pingedMs < PING_INTERVAL_MS) return;
    this.#pingedMs = now;
    this.#socket.send(PING);
  }

  /** Flushes at the end of this turn of the event loop, so that frames from one read of the client's socket travel together. */
  #flushSoon(isUrgent: boolean): void {
    this.#isUrgent ||= isUrgent;
    if (this.#turn) return;
    this.#turn = true;
    setImmediate(() => this.flush(this.#isUrgent));
  }

  /** Sends the collected frames now: all, or as many as one message holds. */
  flush(isAll = true): void {
    this.#turn = false;
    this.#isUrgent = false;
    clearTimeout(this.#gather);
    this.#gather = undefined;
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    const now = Date.now();
    let sent = 0;
    while (sent < this.#waiting.length && (isAll || sent === 0)) {
      const { message, count } = packFirst(this.#waiting, sent);
      this.#socket.send(message);
      sent += count;
    }
    for (const seq of this.#waitingSeqs.splice(0, sent))
      if (seq !== undefined) this.#unanswered.set(seq, now);
    this.#waiting.splice(0, sent);
  }

  #receive(data: RawData, isBinary: boolean): void {
    this.#lastSignMs = Date.now();
    if (this.#closedWith) return;
    const text = data.toString();
    if (text === PONG && !isBinary) return;
    const frames = parseFrames(this.#schema, isBinary ? undefined : text);
    if (!frames.ok) {
      this.#socket.close(4400, 'unreadable frames');
      return;
    }
    for (const frame of frames.value as Answerable[]) this.#noteAnswer(frame);
    const hasWindow = this.#protocol === 'mqtt';
    if (this.#waiting.length > 0 && (!hasWindow || this.#unanswered.size === 0)) this.#flushSoon(!hasWindow);
    const end = (frames.value as Answerable[]).findIndex((frame) => frame.kind === 'goodbye');
    const goodbye = frames.value[end] as Answerable | undefined;
    const before = goodbye ? frames.value.slice(0, end) : frames.value;
    if (this.#handlers) this.#handlers.frames(before);
    else this.#early.push(...before);
    if (goodbye) this.#leave(goodbye.code ?? 1_000, goodbye.reason ?? '');
  }

  /** The object has ended the link: closes the client at once, before the WebSocket itself has closed. */
  #leave(code: number, reason: string): void {
    this.#onClose(code, reason);
    this.#socket.terminate();
  }

  #noteAnswer(frame: Answerable): void {
    if (frame.kind === 'stored' || frame.kind === 'unstored') this.#measure(frame.seqs?.[0]);
    if (frame.seq !== undefined) this.#unanswered.delete(frame.seq);
    for (const seq of frame.seqs ?? []) this.#unanswered.delete(seq);
  }

  #measure(seq: number | undefined): void {
    const sentAtMs = seq === undefined ? undefined : this.#unanswered.get(seq);
    if (sentAtMs !== undefined) this.#answered((this.#lastSignMs - sentAtMs) / 1_000);
  }

  #onClose(code: number, reason: string): void {
    open.delete(this);
    if (this.#closedWith) return;
    this.#closedWith = { code, reason };
    clearTimeout(this.#gather);
    this.#handlers?.closed(code, reason);
  }
}

/** Every open link of this process: one timer sends the pings of all. */
const open = new Set<Link<never, never> | Link<unknown, unknown>>();

/** Starts the ping timer of all links; call the result to stop it. */
export function startPulse(): () => void {
  const timer = setInterval(() => {
    const now = Date.now();
    for (const link of open) link.pulse(now);
  }, 1_000);
  return () => clearInterval(timer);
}

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
