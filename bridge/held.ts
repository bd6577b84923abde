/**
 * Publishes that their object did not take yet, because they are over a rate (`wait` in protocol/link/frame.ts). They
 * are kept in their order and sent again at the pace that the object names. Nothing is dropped: whoever fills this
 * stops reading its client.
 */
import type { Wait } from '../protocol/link/frame.ts';

interface HeldFrame<Frame> {
  seq: number;
  frame: Frame;
}

export class Held<Frame> {
  readonly #send: (frame: Frame, seq: number) => void;
  readonly #onHolding: (isHolding: boolean) => void;
  /** By sequence, ascending. */
  readonly #frames: HeldFrame<Frame>[] = [];
  #pace: Pick<Wait, 'ms' | 'count'> | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `onHolding`: it holds some from here on, or none any more. */
  constructor(send: (frame: Frame, seq: number) => void, onHolding: (isHolding: boolean) => void = () => {}) {
    this.#send = send;
    this.#onHolding = onHolding;
  }

  get size(): number {
    return this.#frames.length;
  }

  /** Holds one that has not been sent: it stands behind those that are held. */
  add(seq: number, frame: Frame): void {
    this.#frames.push({ seq, frame });
  }

  /** Holds again what was sent and not taken, each in its place. */
  takeBack(frames: readonly HeldFrame<Frame>[], pace: Pick<Wait, 'ms' | 'count'>): void {
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
    for (const { frame, seq } of this.#frames.splice(0, count)) this.#send(frame, seq);
    if (this.#frames.length > 0) this.#timer = setTimeout(() => this.#sendSome(), ms);
    else this.#onHolding(false);
  }
}
