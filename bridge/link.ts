/**
 * The link of one client: a WebSocket to the object that owns the client. When one end closes, the other closes
 * too; the bridge never redials, the client has to reconnect.
 *
 * Batching: if no frame is unanswered, frames are sent at the end of the turn. Otherwise they are collected, and how
 * long depends on the protocol. A device's link has one batch under way: what comes meanwhile travels behind its answer,
 * so that batches grow with the load, unless an urgent frame sends everything at once. A partner's link collects until
 * the next answer or a full batch, but at most for two milliseconds, because the answer of one Site may be late while
 * others would answer at once.
 */
import { type RawData, WebSocket } from 'ws';
import type * as z from 'zod';
import { MAX_BATCH_FRAMES, packFirst, parseFrames } from '../protocol/link/batch.ts';
import { ANSWER_TIMEOUT_MS, PING, PING_INTERVAL_MS, PONG, SIGN_OF_LIFE_MS } from '../protocol/link/live.ts';
import type { LINK_PATHS } from '../protocol/link/proof.ts';

/** A partner's frames are collected no longer than this while an earlier one is unanswered. */
const GATHER_MS = 2;

/**
 * Receives the seconds from a publish, with its wait for the batch before, to its answer `stored` or `unstored`: once per
 * answer, for its first publish. Refused publishes are not measured.
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
  /** Whether one batch is under way at a time, as on a device's link. */
  readonly #hasWindow: boolean;
  #waiting: Up[] = [];
  /** The sequence of each waiting frame, and when it came; undefined for a frame that needs no answer. */
  #waitingSeqs: ({ seq: number; cameMs: number } | undefined)[] = [];
  /** Whether the flush at the end of this turn sends everything, and not only one message. */
  #isUrgent = false;
  #gather: NodeJS.Timeout | undefined;
  #turn = false;
  /** Unanswered sequences that were sent, oldest first, with the times at which each came and was sent. */
  readonly #unanswered = new Map<number, { cameMs: number; sentMs: number }>();
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
    this.#hasWindow = protocol === 'mqtt';
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
    this.#waitingSeqs.push(
      awaitsAnswer === undefined ? undefined : { seq: awaitsAnswer, cameMs: Date.now() },
    );
    if (!this.#hasWindow && this.#waiting.length >= MAX_BATCH_FRAMES) this.flush();
    else if (isUrgent) this.#flushSoon(true);
    else if (this.#unanswered.size === 0) this.#flushSoon(!this.#hasWindow);
    else if (!this.#hasWindow) this.#gather ??= setTimeout(() => this.flush(), GATHER_MS);
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
    const isStuck = oldest !== undefined && now - oldest.sentMs > ANSWER_TIMEOUT_MS;
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
    const sentMs = Date.now();
    let sent = 0;
    while (sent < this.#waiting.length && (isAll || sent === 0)) {
      const { message, count } = packFirst(this.#waiting, sent);
      this.#socket.send(message);
      sent += count;
    }
    for (const one of this.#waitingSeqs.splice(0, sent))
      if (one) this.#unanswered.set(one.seq, { cameMs: one.cameMs, sentMs });
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
    if (this.#waiting.length > 0 && (!this.#hasWindow || this.#unanswered.size === 0))
      this.#flushSoon(!this.#hasWindow);
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
    const one = seq === undefined ? undefined : this.#unanswered.get(seq);
    if (one) this.#answered((this.#lastSignMs - one.cameMs) / 1_000);
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
