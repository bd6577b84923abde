/**
 * Plays a transcript: a raw client performs the steps, and the outcome is every frame that it has received when
 * no other can arrive. A fence proves that: a passive declaration on each channel, which the server answers after
 * everything else. When the server ends the connection, that end is the proof.
 */
import { definitions, type Fields, publishFrames } from '#support/bridge-amqp-frames.ts';
import { AmqpPeer, type HandshakeOptions, type PeerFrame } from '#support/bridge-amqp-peer.ts';
import type { Lane, Names } from './broker.ts';
import { Fence } from './fence.ts';
import { frameName, linesOf, methodId, printable } from './outcome.ts';
import { Missing, within } from './patience.ts';
import { BYE, KEY, type Publishing, type Step, type Transcript } from './transcript.ts';

export class Stage {
  readonly peer: AmqpPeer;
  readonly #lane: Lane;
  readonly #names: Names;
  #other: Stage | undefined;
  readonly #crowd: Stage[] = [];
  /** Frames before this index are not part of the outcome. */
  #first = 0;
  /** Index of the last frame that the steps have waited for. */
  #awaited = 0;
  #gathered: Buffer[] | undefined;
  #isIntroduced = false;
  readonly #closesAnswered = new Set<PeerFrame>();

  private constructor(peer: AmqpPeer, lane: Lane, names: Names) {
    this.peer = peer;
    this.#lane = lane;
    this.#names = names;
  }

  static async connect(lane: Lane, names: Names): Promise<Stage> {
    return new Stage(new AmqpPeer(await lane.connect()), lane, names);
  }

  /**
   * The client's half of the handshake, as this lane's user unless the transcript gives other credentials.
   */
  async open(hello: HandshakeOptions): Promise<void> {
    const { user: username, password, vhost } = this.#lane;
    await within(this.peer.handshake({ username, password, vhost, capabilities: CAPABILITIES, ...hello }));
  }

  startOk(hello: HandshakeOptions): void {
    const { user: username, password } = this.#lane;
    this.peer.startOk(this.#names.fill({ username, password, capabilities: CAPABILITIES, ...hello }));
  }

  /** Replaces the placeholders in a value with the names of this lane. */
  filled<Value>(value: Value): Value {
    return this.#names.fill(value);
  }

  begin(): void {
    this.#first = this.peer.frames.length;
    this.#awaited = this.#first;
  }

  // The steps.

  send(method: string, fields: Fields = {}, channel = 1): void {
    const whole = this.#names.fill({ arguments: {}, ...fields });
    this.write(definitions.encodeMethod(methodId(method), channel, whole));
  }

  publish(body: string | Buffer, publishing: Publishing): void {
    this.write(publishFrames(body, this.#names.fill({ routingKey: KEY, ...publishing })));
  }

  async together(steps: readonly Step[]): Promise<void> {
    this.#gathered = [];
    for (const step of steps) await step(this);
    const gathered = this.#gathered;
    this.#gathered = undefined;
    this.peer.write(...gathered);
  }

  async until(name: string): Promise<void> {
    await this.untilOne(name);
  }

  async untilOne(...names: string[]): Promise<string> {
    return await within(
      this.peer.until(() => {
        const { frames, ended } = this.peer;
        const index = frames.findIndex((one, at) => at >= this.#awaited && names.includes(frameName(one)));
        const found = frames[index];
        if (found) {
          this.#awaited = index + 1;
          return frameName(found);
        }
        const isOver = frames.slice(this.#awaited).some((one) => this.#isEnd(one));
        if (ended || isOver) throw new Missing(names.join(' or '));
        return undefined;
      }),
      names.join(' or '),
    );
  }

  /**
   * A close that the client has not answered. A close of any channel other than the first ends only that
   * channel.
   */
  #isEnd(one: PeerFrame): boolean {
    return one.channel <= 1 && frameName(one).endsWith('.close') && !this.#closesAnswered.has(one);
  }

  write(...parts: Buffer[]): void {
    if (this.#gathered) this.#gathered.push(...parts);
    else this.peer.write(...parts);
  }

  /** Waits for the channel's close and answers it. */
  async acceptClose(): Promise<void> {
    const before = this.#awaited;
    await this.until('channel.close');
    const close = this.peer.frames.find((one, at) => at >= before && frameName(one) === 'channel.close');
    if (close) this.answerClose(close);
  }

  /** A second connection with its channel 1 open. */
  async beside(): Promise<Stage> {
    if (this.#other) return this.#other;
    this.#other = await Stage.connect(this.#lane, this.#names);
    await this.#other.open({});
    await this.#other.peer.openChannel(1);
    this.#other.begin();
    return this.#other;
  }

  /** Opens the given number of further connections and keeps them open until this one has ended. */
  async crowd(count: number): Promise<void> {
    for (let index = 0; index < count; index++) {
      const one = await Stage.connect(this.#lane, this.#names);
      await one.open({});
      this.#crowd.push(one);
    }
  }

  // The end of the transcript.

  async run({ steps, introduced = false }: Transcript): Promise<string[]> {
    this.#isIntroduced = introduced;
    const missing: string[] = [];
    try {
      for (const step of steps) await step(this);
    } catch (error) {
      if (!(error instanceof Missing)) throw error;
      missing.push(`(no ${error.message})`);
    }
    const lines = [...(await this.#drain()), ...missing];
    if (!this.#other) return lines;
    return [...lines, ...(await this.#other.#drain()).map((line) => `beside: ${line}`)];
  }

  /** All frames received, when no other can arrive, and the state of the connection. */
  async #drain(): Promise<string[]> {
    const fence = new Fence(this);
    const isOver = this.peer.ended || this.#has('connection.close') || this.#has('connection.close-ok');
    if (this.#has('connection.open-ok') && !isOver) fence.raise();
    const state = await this.#untilIdle(fence);
    const frames = this.peer.frames.filter((one, at) => at >= this.#first && !fence.has(one, at));
    const unframed =
      this.peer.unframed.length > 0 ? [JSON.stringify(this.peer.unframed.toString('latin1'))] : [];
    const lines = [...linesOf(frames, this.#isIntroduced), ...unframed, state].map((line) =>
      printable(this.#names.hide(line)),
    );
    if (state === 'open') await this.leave();
    this.peer.stream.destroy();
    for (const one of this.#crowd) await one.leave();
    return lines;
  }

  #has(name: string): boolean {
    return this.peer.frames.some((one) => frameName(one) === name);
  }

  /** False when it is already answered. */
  answerClose(close: PeerFrame): boolean {
    if (this.#closesAnswered.has(close)) return false;
    this.#closesAnswered.add(close);
    const isOfChannel = frameName(close) === 'channel.close';
    this.send(isOfChannel ? 'channel.close-ok' : 'connection.close-ok', {}, close.channel);
    return true;
  }

  async #untilIdle(fence: Fence): Promise<string> {
    const look = () => {
      if (this.peer.ended) return 'ended';
      // After close-ok the client ends the stream.
      if (this.#has('connection.close-ok')) return 'closed';
      const close = this.peer.frames.find((one) => frameName(one) === 'connection.close');
      if (close) {
        this.answerClose(close);
        return undefined;
      }
      return fence.isReached() ? 'open' : undefined;
    };
    try {
      return await within(this.peer.until(look), 'end');
    } catch (error) {
      if (error instanceof Missing) return 'silent';
      throw error;
    }
  }

  /** Closes in order, so that the messages it held are back in their queue. */
  async leave(): Promise<void> {
    this.send('connection.close', BYE, 0);
    await this.until('connection.close-ok');
    this.peer.stream.destroy();
  }
}

const CAPABILITIES = {
  authentication_failure_close: true,
  publisher_confirms: true,
  consumer_cancel_notify: true,
  'basic.nack': true,
};
