/**
 * The channels of a running connection: opens them, passes frames to them, and rejects frames for channels that
 * are not open, with RabbitMQ's errors.
 */
import type { VhostLinkDown } from '../../protocol/link/vhost.ts';
import { Channel, type ChannelHost } from './channel.ts';
import { noMethodFrame } from './content.ts';
import { METHOD_HANDLERS } from './method/table.ts';
import type { Uplink } from './uplink.ts';
import { AmqpError, connectionError } from './wire/amqp-error.ts';
import { encodeMethod, METHOD } from './wire/codec.ts';
import { FRAME, type Frame } from './wire/frame-reader.ts';

export class Channels {
  readonly #host: ChannelHost;
  readonly #uplink: Uplink;
  readonly #max: number;
  readonly #open = new Map<number, Channel>();

  constructor(host: ChannelHost, uplink: Uplink, max: number) {
    this.#host = host;
    this.#uplink = uplink;
    this.#max = max;
  }

  /** Handles a frame on a channel above 0. A channel error closes only that channel. */
  take(frame: Frame): void {
    const channel = this.#open.get(frame.channel);
    if (!channel) {
      this.#openOne(frame);
      return;
    }
    try {
      if (frame.type === FRAME.header) channel.takeContent('takeHeader', frame.payload);
      else if (frame.type === FRAME.body) channel.takeContent('takeBody', frame.payload);
      else {
        const method = frame.payload.readUInt32BE(0);
        channel.takeMethod(method, frame.payload.subarray(4), METHOD_HANDLERS[method]);
      }
    } catch (error) {
      if (!(error instanceof AmqpError) || error.severity === 'connection') throw error;
      channel.fail(error);
    }
  }

  deliver(frame: Extract<VhostLinkDown, { kind: 'deliver' }>): void {
    const channel = this.#open.get(frame.channel);
    if (channel) channel.deliver(frame.tag, frame.delivery);
    else this.#uplink.drained(frame.delivery.bytes);
  }

  cancelled({ channel, tag }: Extract<VhostLinkDown, { kind: 'cancelled' }>): void {
    this.#open.get(channel)?.cancelled(tag);
  }

  flushConfirms(): void {
    for (const channel of this.#open.values()) channel.flushConfirms();
  }

  closed(id: number): void {
    this.#open.delete(id);
  }

  /** Whether a frame of this channel has to wait. */
  isBusy(id: number | undefined): boolean {
    return id !== undefined && this.#open.get(id)?.isBusy === true;
  }

  endOverdue(now: number): void {
    for (const channel of this.#open.values()) channel.endOverdue(now);
  }

  abandon(): void {
    for (const channel of this.#open.values()) channel.abandon();
  }

  #openOne(frame: Frame): void {
    if (frame.type !== FRAME.method) throw noMethodFrame();
    const method = frame.payload.readUInt32BE(0);
    if (method !== METHOD.channelOpen) throw connectionError(504, "expected 'channel.open'", method);
    if (this.#open.size >= this.#max) {
      const what = `number of channels opened (${this.#open.size}) has reached the negotiated channel_max (${this.#max})`;
      throw connectionError(530, what);
    }
    this.#open.set(frame.channel, new Channel(frame.channel, this.#host, this.#uplink));
    this.#host.write(encodeMethod(METHOD.channelOpenOk, frame.channel, { channelId: Buffer.alloc(0) }));
  }
}
