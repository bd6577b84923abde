/**
 * What a connection sends to its object: publishes and requests, whose answers it awaits, collected
 * settlements, and the number of bytes that the client's socket has accepted (`credit`).
 */
import { LIMIT } from '../../protocol/limits.ts';
import { CLOSE_CODES } from '../../protocol/link/live.ts';
import type { PublishFrame, VhostLinkDown, VhostLinkUp } from '../../protocol/link/vhost.ts';
import { isEmergencyKey } from '../../protocol/routing-keys.ts';
import type { ConnectionEvents } from '../connection-report.ts';
import { Held } from '../held.ts';
import type { ObjectLink } from '../link.ts';
import type { Content } from './content.ts';
import { AmqpError, connectionError } from './wire/amqp-error.ts';
import { METHOD } from './wire/codec.ts';

/**
 * Bytes that the client's socket has accepted are reported in steps of this size, an eighth of the delivery
 * window.
 */
const CREDIT_STEP_BYTES = 128 * 1024;
/** Keeps a settle frame far below the size limit of a link message. */
const MAX_LEASES_PER_FRAME = 5_000;

/** How long a settlement may wait for a publish, to travel with it. */
const SETTLE_WAIT_MS = 5;

/** The error that closes a client whose link has ended: 320, so that it reconnects (rule 7). */
export function linkEnd(code: number): AmqpError {
  const texts: Record<number, string> = {
    [CLOSE_CODES.revoked]: 'the API key was revoked or its organization was suspended',
    [CLOSE_CODES.expired]: 'the API key has expired',
  };
  return connectionError(320, texts[code] ?? 'the service was interrupted, try again');
}

type PublishOutcome = 'stored' | 'unstored' | AmqpError;
export type SettleOutcome = 'ack' | 'requeue' | 'discard';

/** A publish without an outcome. */
interface OpenPublish {
  bytes: number;
  frame: PublishFrame;
  onOutcome: (outcome: PublishOutcome) => void;
}

export class Uplink {
  readonly #link: ObjectLink<VhostLinkUp>;
  readonly #schedule: () => void;
  readonly #events: Pick<ConnectionEvents, 'answered'>;
  readonly #answers = new Map<number, (answer: VhostLinkDown) => void>();
  readonly #publishes = new Map<number, OpenPublish>();
  /** Publishes that exceed the key's rate; an emergency is sent before them. */
  readonly #held = new Held<PublishFrame>((frame) => this.#link.send(frame, frame.seq));
  #openPublishBytes = 0;
  #whenAnswered: (() => void) | undefined;
  #settling: { outcome: SettleOutcome; leases: number[] } | undefined;
  /** Runs while all collected settlements may wait. */
  #settleTimer: NodeJS.Timeout | undefined;
  #drainedBytes = 0;
  #reportedDrainedBytes = 0;

  /** `schedule` must cause `endTurn` to be called at the end of this turn. */
  constructor(
    link: ObjectLink<VhostLinkUp>,
    schedule: () => void,
    events: Pick<ConnectionEvents, 'answered'>,
  ) {
    this.#link = link;
    this.#schedule = schedule;
    this.#events = events;
  }

  /**
   * Whether the maximum number of publishes is held; no further ones are accepted until some of them have
   * been sent.
   */
  get isHoldFull(): boolean {
    return this.#held.size >= LIMIT.heldPublishes;
  }

  /** Whether any publishes are held because they exceed the rate. */
  get isHolding(): boolean {
    return this.#held.size > 0;
  }

  /** Whether so many frames are unanswered that the bridge must not read more from the client. */
  get isFull(): boolean {
    return (
      this.#answers.size >= LIMIT.openRequests ||
      this.#publishes.size - this.#held.size >= LIMIT.openPublishes ||
      this.isHoldFull ||
      this.#openPublishBytes >= LIMIT.openPublishBytes
    );
  }

  /** Number of collected settlements that the object does not know yet. */
  get collected(): number {
    return this.#settling?.leases.length ?? 0;
  }

  send(frame: VhostLinkUp): void {
    this.flush();
    this.#link.send(frame);
  }

  /** Sends a frame with a new sequence and passes its answer to `onAnswer`. */
  request(build: (seq: number) => VhostLinkUp, onAnswer: (answer: VhostLinkDown) => void): void {
    this.flush();
    const seq = this.#link.nextSeq();
    this.#answers.set(seq, onAnswer);
    this.#link.send(build(seq), seq);
  }

  publish(content: Content, onOutcome: (outcome: PublishOutcome) => void): void {
    const seq = this.#link.nextSeq();
    const { exchange, routingKey, properties } = content;
    const { body, encoding } = readBody(content.body);
    const frame = { kind: 'publish' as const, seq, exchange, routingKey, properties, body, encoding };
    this.#publishes.set(seq, { bytes: content.body.length, frame, onOutcome });
    this.#openPublishBytes += content.body.length;
    if (this.#held.size > 0 && !isEmergencyKey(routingKey)) {
      this.#held.add(frame);
      return;
    }
    this.flush(this.#settleTimer === undefined);
    this.#link.send(frame, seq);
  }

  /**
   * Collects leases until the end of the turn, so that all acks from one read travel in one frame. With `mayWait`, for a
   * client whose next deliveries do not need them, they wait up to `SETTLE_WAIT_MS` for a publish.
   */
  settle(outcome: SettleOutcome, leases: readonly number[], mayWait = false): void {
    if (leases.length === 0) return;
    if (this.#settling?.outcome !== outcome) this.flush();
    const isWaiting = this.#settleTimer !== undefined || this.#settling === undefined;
    this.#settling ??= { outcome, leases: [] };
    for (const lease of leases) this.#settling.leases.push(lease);
    if (mayWait && isWaiting) {
      this.#settleTimer ??= setTimeout(() => this.flush(), SETTLE_WAIT_MS);
      return;
    }
    this.#stopWaiting();
    this.#schedule();
  }

  /** Sends the collected settlements, unless they may wait. */
  endTurn(): void {
    if (this.#settleTimer === undefined) this.flush();
  }

  /** Sends the collected settlements now; those that are not urgent wait in the link as a publish does. */
  flush(isUrgent = true): void {
    this.#stopWaiting();
    const settling = this.#settling;
    this.#settling = undefined;
    if (!settling) return;
    for (let start = 0; start < settling.leases.length; start += MAX_LEASES_PER_FRAME) {
      const leases = settling.leases.slice(start, start + MAX_LEASES_PER_FRAME);
      this.#link.send({ kind: 'settle', outcome: settling.outcome, leases }, undefined, isUrgent);
    }
  }

  #stopWaiting(): void {
    clearTimeout(this.#settleTimer);
    this.#settleTimer = undefined;
  }

  /**
   * Frees `bytes` of the delivery window, because the client's socket has accepted them or they were
   * discarded.
   */
  drained(bytes: number): void {
    this.#drainedBytes += bytes;
    if (this.#drainedBytes - this.#reportedDrainedBytes < CREDIT_STEP_BYTES) return;
    this.#reportedDrainedBytes = this.#drainedBytes;
    this.send({ kind: 'credit', drainedBytes: this.#drainedBytes });
  }

  /** Passes an answer to the callback of its request or publish. */
  take(frame: Exclude<VhostLinkDown, { kind: 'deliver' | 'cancelled' }>): void {
    switch (frame.kind) {
      case 'stored':
      case 'unstored':
        this.#events.answered(frame.kind === 'stored' ? 'confirmed' : 'nacked', frame.seqs.length);
        for (const seq of frame.seqs) this.#publishEnded(seq, frame.kind);
        return;
      case 'refused':
        if (this.#publishes.has(frame.seq)) {
          const { severity, code, text, seq } = frame;
          this.#events.answered('refused', 1);
          this.#publishEnded(seq, new AmqpError(severity, code, text, METHOD.basicPublish));
          return;
        }
        this.#answer(frame.seq, frame);
        return;
      case 'wait':
        this.#held.takeBack(
          frame.seqs.flatMap((seq) => this.#publishes.get(seq)?.frame ?? []),
          frame,
        );
        return;
      case 'ok':
      case 'got':
        this.#answer(frame.seq, frame);
    }
  }

  /** Calls `done` once every publish and request has its outcome, held publishes included. */
  whenAnswered(done: () => void): void {
    this.#whenAnswered = done;
    this.#checkAnswered();
  }

  close(): void {
    this.#held.stop();
    this.#stopWaiting();
    this.#link.close();
  }

  #answer(seq: number, frame: VhostLinkDown): void {
    const onAnswer = this.#answers.get(seq);
    this.#answers.delete(seq);
    onAnswer?.(frame);
    this.#checkAnswered();
  }

  #publishEnded(seq: number, outcome: PublishOutcome): void {
    const publish = this.#publishes.get(seq);
    if (!publish) return;
    this.#publishes.delete(seq);
    this.#openPublishBytes -= publish.bytes;
    publish.onOutcome(outcome);
    this.#checkAnswered();
  }

  #checkAnswered(): void {
    if (this.#publishes.size > 0 || this.#answers.size > 0) return;
    const done = this.#whenAnswered;
    this.#whenAnswered = undefined;
    done?.();
  }
}

/**
 * Encodes a body for a frame: valid UTF-8 as text, every other body as base64, so that no byte of it is lost,
 * even in the dead-letter queue.
 */
function readBody(bytes: Buffer): { body: string; encoding: 'utf8' | 'base64' } {
  const text = bytes.toString('utf8');
  const isUtf8 = !text.includes('\ufffd') || Buffer.from(text, 'utf8').equals(bytes);
  return isUtf8 ? { body: text, encoding: 'utf8' } : { body: bytes.toString('base64'), encoding: 'base64' };
}
