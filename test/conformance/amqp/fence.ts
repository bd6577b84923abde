/**
 * A fence proves that all answers have arrived: the client sends a passive declaration on each channel, and
 * the server answers it after everything else. The fence reopens a closed channel first, which also shows
 * that reopening works.
 */
import type { PeerFrame } from '#support/bridge-amqp-peer.ts';
import { frameName } from './outcome.ts';
import type { Stage } from './stage.ts';

/** A queue that no transcript declares. */
const QUEUE = 'vcp.$U.event.execution';
/** The value when no channel is open. */
const CHANNEL = 40;

export class Fence {
  readonly #stage: Stage;
  /** Per channel, the index of the first frame that can answer the fence. */
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

  /**
   * Whether each channel has answered the fence. A channel that turns out to be closed did not see the
   * declaration, so the fence sends it again.
   */
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

  /** Whether a frame answers the fence, so that it does not belong to the transcript. */
  has(one: PeerFrame, at: number): boolean {
    return this.#isAnswer(one, at) || (this.#isBehind(one, at) && frameName(one) === 'channel.open-ok');
  }

  #isAnswer(one: PeerFrame, at: number): boolean {
    if (one.type !== 'method' || !this.#isBehind(one, at)) return false;
    return frameName(one) === 'queue.declare-ok' && one.fields.queue === this.#stage.filled(QUEUE);
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
