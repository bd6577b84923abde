/**
 * The proof that nothing more comes: a passive declaration on each channel, which is answered behind all else. A channel
 * that is closed is opened again for it, which shows that it can be.
 */
import type { PeerFrame } from '../../support/bridge-amqp-peer.ts';
import { frameName } from './outcome.ts';
import type { Stage } from './stage.ts';

/** A queue that no transcript declares. */
const QUEUE = 'vcp.$U.event.execution';
/** Where none is open. */
const CHANNEL = 40;

export class Fence {
  readonly #stage: Stage;
  /** Per channel the frame from which on its answers may come. */
  readonly #raised = new Map<number, number>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  get #frames(): readonly PeerFrame[] {
    return this.#stage.peer.frames;
  }

  raise(): void {
    const channels = new Map<number, boolean>();
    for (const one of this.#frames) {
      const name = frameName(one);
      if (name === 'channel.close') this.#stage.answerClose(one);
      if (name === 'channel.open-ok') channels.set(one.channel, true);
      if (name === 'channel.close-ok' || name === 'channel.close') channels.set(one.channel, false);
    }
    if (channels.size === 0) channels.set(CHANNEL, false);
    for (const [channel, isOpen] of channels) this.#raiseOn(channel, isOpen);
  }

  /** Whether it is answered on each channel. One that turns out to be closed has not seen it, and gets it again. */
  isReached(): boolean {
    if (this.#raised.size === 0) return false;
    for (const one of this.#frames) {
      if (frameName(one) === 'channel.close' && this.#stage.answerClose(one))
        this.#raiseOn(one.channel, false);
    }
    return [...this.#raised.keys()].every((channel) =>
      this.#frames.some((one, at) => one.channel === channel && this.#isAnswer(one, at)),
    );
  }

  /** Whether a frame is one of its answers, and none of the transcript's. */
  has(one: PeerFrame, at: number): boolean {
    return this.#isAnswer(one, at) || (this.#isBehind(one, at) && frameName(one) === 'channel.open-ok');
  }

  #isAnswer(one: PeerFrame, at: number): boolean {
    if (one.type !== 'method' || !this.#isBehind(one, at)) return false;
    return frameName(one) === 'queue.declare-ok' && one.fields.queue === this.#stage.name(QUEUE);
  }

  #isBehind(one: PeerFrame, at: number): boolean {
    return at >= (this.#raised.get(one.channel) ?? Number.POSITIVE_INFINITY);
  }

  #raiseOn(channel: number, isOpen: boolean): void {
    this.#raised.set(channel, this.#frames.length);
    if (!isOpen) this.#stage.send('channel.open', {}, channel);
    this.#stage.send('queue.declare', { queue: QUEUE, passive: true }, channel);
  }
}
