/**
 * Held publishes: publishes that exceed a rate, which their object has not accepted yet (`wait` in
 * protocol/link/frame.ts), and publishes that follow them. The bridge sends them in order, at the pace that the
 * object sets. It drops none while the client is connected: the AMQP engine stops reading from a client that
 * has too many of them, the MQTT engine from a client that has any.
 */
import type { Wait } from '../protocol/link/frame.ts';

export class Held<Frame extends { seq: number }> {
  readonly #send: (frame: Frame) => void;
  readonly #onHolding: (isHolding: boolean) => void;
  /** Sorted by sequence, ascending. */
  readonly #frames: Frame[] = [];
  #pace: Pick<Wait, 'ms' | 'count'> | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `onHolding` is called with true when publishes are held, and with false when none is left. */
  constructor(send: (frame: Frame) => void, onHolding: (isHolding: boolean) => void = () => {}) {
    this.#send = send;
    this.#onHolding = onHolding;
  }

  get size(): number {
    return this.#frames.length;
  }

  /** Holds a publish that has not been sent yet, after those that are already held. */
  add(frame: Frame): void {
    this.#frames.push(frame);
  }

  /** Holds publishes that were sent and not accepted, each at its place in the sequence. */
  takeBack(frames: readonly Frame[], pace: Pick<Wait, 'ms' | 'count'>): void {
    this.#frames.push(...frames);
    this.#frames.sort((left, right) => left.seq - right.seq);
    this.#pace = pace;
    if (this.#frames.length > 0) this.#onHolding(true);
    this.#timer ??= setTimeout(() => this.#sendSome(), pace.ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#frames.length = 0;
  }

  #sendSome(): void {
    this.#timer = undefined;
    const { ms = 1, count = 1 } = this.#pace ?? {};
    for (const frame of this.#frames.splice(0, count)) this.#send(frame);
    if (this.#frames.length > 0) this.#timer = setTimeout(() => this.#sendSome(), ms);
    else this.#onHolding(false);
  }
}
