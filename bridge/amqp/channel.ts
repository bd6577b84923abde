/**
 * One AMQP channel: handles the client's methods and sends the replies. What the bridge can decide it decides
 * at once, in the order of the client's frames. It forwards publishes, settlements and basic.qos to the Vhost
 * without waiting; for everything else it sends a request, one at a time. While a request is unanswered the
 * channel is busy and handles no frames. method/table.ts lists the methods.
 *
 *   open ─► ending (waits for the outcomes of publishes) ─► closing (waits for close-ok) ─► closed
 */

import { LIMIT } from '../../protocol/limits.ts';
import type { Delivery, VhostLinkDown, VhostLinkUp } from '../../protocol/link/vhost.ts';
import { authorizePublish } from '../../protocol/publish-right.ts';
import { EXCHANGE } from '../../protocol/routing-keys.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import { Confirms } from './confirms.ts';
import { type Content, ContentAssembly, checkProperties, noMethodFrame, readPublish } from './content.ts';
import { Unacked } from './unacked.ts';
import type { SettleOutcome, Uplink } from './uplink.ts';
import { AmqpError, channelError, connectionError, SilentClose } from './wire/amqp-error.ts';
import { decodeMethod, encodeMethod, type Fields, isKnownMethod, METHOD } from './wire/codec.ts';
import { encodeDelivery } from './wire/delivery.ts';

/** With a prefetch of at least this, an ack may wait. */
const LARGE_PREFETCH = 50;

/** What a channel needs from its connection. */
export interface ChannelHost {
  readonly vhost: string;
  readonly username: string;
  /** The scopes of the client's key. */
  readonly scopes: ReadonlySet<ApiKeyScope>;
  readonly frameMax: number;
  /** Whether the client accepts a basic.cancel from the server. */
  readonly hearsOfCancels: boolean;
  write(bytes: Buffer, onTaken?: () => void): void;
  /** Schedules a flush at the end of this turn. */
  schedule(): void;
  /** Counts a publish that is sent to the object. */
  published(): void;
  /** Counts a publish that the bridge rejects. */
  refused(): void;
  closed(channel: number): void;
}

/** The object's answer to a request that it does not reject. */
type Answer = Extract<VhostLinkDown, { kind: 'ok' | 'got' }>;

/** `args` is the encoded form of `fields`. */
export type MethodHandler = (channel: Channel, fields: Fields, method: number, args: Buffer) => void;

export class Channel {
  readonly id: number;
  readonly host: ChannelHost;
  readonly uplink: Uplink;
  #state: 'open' | 'ending' | 'closing' = 'open';
  #isBusy = false;
  /** `#error`: why the bridge closes the channel, if it does. `#isLeft`: whether the client closes it. */
  #error: AmqpError | undefined;
  #isLeft = false;
  #deadline: NodeJS.Timeout | undefined;
  /** Number of publishes without an outcome. */
  #openPublishes = 0;
  #content: ContentAssembly | undefined;
  #confirms: Confirms | undefined;
  /** Of the consumers that begin from now on; 0 = none. */
  prefetch = 0;
  /** The smallest prefetch that the client has set on this channel, for its consumers or for all of them. */
  #leastPrefetch = Number.POSITIVE_INFINITY;
  /** The queue that was declared last: an empty queue name refers to it. */
  lastQueue = '';
  readonly unacked = new Unacked();
  /** The tags of the channel's consumers. */
  readonly tags = new Set<string>();

  constructor(id: number, host: ChannelHost, uplink: Uplink) {
    this.id = id;
    this.host = host;
    this.uplink = uplink;
  }

  /** Whether a request to the object is unanswered: the client's next frame waits. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  // frames from the client

  /** `handler` is undefined for basic.publish and for methods that a client may not send. */
  takeMethod(method: number, args: Buffer, handler: MethodHandler | undefined): void {
    if (this.#state !== 'open') {
      this.#takeAtEnd(method);
      return;
    }
    if (this.#content) throw this.#content.interrupted();
    if (method === METHOD.basicPublish) {
      this.#content = new ContentAssembly(readPublish(args));
      return;
    }
    if (!handler) {
      if (!isKnownMethod(method)) throw new SilentClose(`unknown method ${method}`);
      throw connectionError(503, 'unimplemented method', method);
    }
    handler(this, decodeMethod(method, args), method, args);
  }

  /** While the bridge closes the channel it ignores all methods except close, open and close-ok. */
  #takeAtEnd(method: number): void {
    if (method === METHOD.channelClose && this.#state === 'ending') this.#isLeft = true;
    else if (method === METHOD.channelClose) this.reply(METHOD.channelCloseOk, {});
    else if (method === METHOD.channelOpen) throw secondOpen(method);
    else if (method === METHOD.channelCloseOk && this.#state === 'closing') this.host.closed(this.id);
  }

  takeContent(part: 'takeHeader' | 'takeBody', payload: Buffer): void {
    if (this.#state !== 'open') return;
    if (!this.#content) throw noMethodFrame();
    const content = this.#content[part](payload);
    if (content) this.#publish(content);
  }

  #publish(content: Content): void {
    this.#content = undefined;
    this.#checkRight(content);
    checkProperties(content, this.host.username);
    const tag = this.#confirms?.next();
    this.host.published();
    this.#openPublishes += 1;
    this.uplink.publish(content, (outcome) => {
      this.#openPublishes -= 1;
      if (this.#state === 'closing') return;
      if (outcome instanceof AmqpError && outcome.severity === 'connection') throw outcome;
      if (outcome instanceof AmqpError) this.fail(outcome);
      else if (tag !== undefined) this.#confirm(tag, outcome);
      this.#closeIfAnswered();
    });
  }

  /**
   * Checks whether the key may publish this, before the publish is sent. A rejection closes the channel, so
   * that no later publish is accepted [C-6.4].
   */
  #checkRight({ exchange, routingKey }: Content): void {
    const { vhost, username: slug, scopes } = this.host;
    const right = authorizePublish({ slug, vhost }, scopes, exchange, routingKey);
    if (right.ok) return;
    this.host.refused();
    const { severity, code, text } = right.refusal;
    throw new AmqpError(severity, code, text, METHOD.basicPublish);
  }

  #confirm(tag: number, outcome: 'stored' | 'unstored'): void {
    this.#confirms?.setOutcome(tag, outcome === 'stored' ? 'ack' : 'nack');
    this.host.schedule();
  }

  /** Sends the confirms that were collected in this turn. */
  flushConfirms(): void {
    for (const { kind, tag, multiple } of this.#confirms?.take() ?? []) {
      const fields = { deliveryTag: tag, multiple };
      if (kind === 'ack') this.reply(METHOD.basicAck, fields);
      else this.reply(METHOD.basicNack, { ...fields, requeue: false });
    }
  }

  // frames from the object

  deliver(tag: string, delivery: Delivery): void {
    const { bytes } = delivery;
    if (this.#state !== 'open') {
      // The message was put back into its queue when the channel closed; only its bytes in the delivery
      // window must be freed.
      this.uplink.drained(bytes);
      return;
    }
    if (!this.tags.has(tag)) {
      // The consumer was cancelled while the delivery was on its way: requeue it.
      this.uplink.settle('requeue', delivery.lease === 0 ? [] : [delivery.lease]);
      this.uplink.drained(bytes);
      return;
    }
    const fields = {
      consumerTag: tag,
      deliveryTag: this.unacked.add(delivery.lease === 0 ? null : delivery.lease),
      redelivered: delivery.redelivered,
      exchange: EXCHANGE,
      routingKey: delivery.routingKey,
    };
    const frames = encodeDelivery(this.id, { id: METHOD.basicDeliver, fields }, delivery, this.host.frameMax);
    this.host.write(frames, () => this.uplink.drained(bytes));
  }

  /** The queue of a consumer was deleted: sends basic.cancel to a client that supports it. */
  cancelled(tag: string): void {
    if (this.#state !== 'open' || !this.tags.delete(tag)) return;
    if (this.host.hearsOfCancels) this.reply(METHOD.basicCancel, { consumerTag: tag, nowait: true });
  }

  /** Closes the channel if a delivery has been unacknowledged for too long, as RabbitMQ does. */
  endOverdue(now: number): void {
    if (this.#state !== 'open' || !this.unacked.isOverdue(now)) return;
    const what = `delivery acknowledgement on channel ${this.id} timed out. Timeout value used: ${LIMIT.unacknowledgedMs} ms. This timeout value can be configured, see consumers doc guide to learn more`;
    this.fail(channelError(406, what, 0));
  }

  /** `isShared`: for all consumers of the channel together, which the object counts. */
  setPrefetch(count: number, isShared: boolean): void {
    if (count > 0) this.#leastPrefetch = Math.min(this.#leastPrefetch, count);
    if (isShared) this.uplink.send({ kind: 'qos', channel: this.id, prefetch: count });
    else this.prefetch = count;
  }

  /**
   * Settles deliveries. An ack may wait if there is no prefetch, or a large one of which less than half is in use: the
   * object also counts deliveries and acks that are on their way, so an ack of a small prefetch may hold up the next one.
   */
  settle(outcome: SettleOutcome, leases: readonly number[]): void {
    const used = this.unacked.size + this.uplink.collected + leases.length;
    const isRoomy = this.#leastPrefetch >= LARGE_PREFETCH && used < this.#leastPrefetch / 2;
    this.uplink.settle(outcome, leases, outcome === 'ack' && isRoomy);
  }

  // ends

  /** Closes the channel with an error. */
  fail(error: AmqpError): void {
    this.#error ??= error;
    this.#end();
  }

  close(): void {
    this.#isLeft = true;
    this.#end();
  }

  /** Accepts no further frames and waits for the outcomes of earlier publishes, `amqpCloseMs` at most. */
  #end(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ending';
    this.#content = undefined;
    this.uplink.send({ kind: 'close-channel', channel: this.id });
    this.#deadline = setTimeout(() => this.#close(), LIMIT.amqpCloseMs);
    this.#closeIfAnswered();
  }

  #closeIfAnswered(): void {
    if (this.#state === 'ending' && this.#openPublishes === 0) this.#close();
  }

  #close(): void {
    clearTimeout(this.#deadline);
    this.flushConfirms();
    this.#state = 'closing';
    if (this.#error) this.reply(METHOD.channelClose, this.#error.fields);
    if (this.#isLeft) this.reply(METHOD.channelCloseOk, {});
    if (!this.#error) this.host.closed(this.id);
  }

  /** Called when the connection has ended: sends nothing. */
  abandon(): void {
    clearTimeout(this.#deadline);
  }

  /** Turns on publisher confirms. */
  select(): void {
    this.#confirms ??= new Confirms();
  }

  // shared

  /**
   * Sends a request to the object, and handles no further frames of the client until the answer arrives. A
   * rejection closes the channel or the connection without `onAnswer`.
   */
  request(method: number, build: (seq: number) => VhostLinkUp, onAnswer: (answer: Answer) => void): void {
    this.#isBusy = true;
    this.uplink.request(build, (answer) => {
      this.#isBusy = false;
      if (this.#state !== 'open') return;
      if (answer.kind === 'refused') this.#refused(answer, method);
      else onAnswer(answer as Answer);
    });
  }

  /** Closes the channel or the connection with the error that the object sent. */
  #refused({ severity, code, text }: Extract<VhostLinkDown, { kind: 'refused' }>, method: number): void {
    const error = new AmqpError(severity, code, text, method);
    if (severity === 'connection') throw error;
    this.fail(error);
  }

  reply(method: number, fields: Fields): void {
    this.host.write(encodeMethod(method, this.id, fields));
  }
}

export function secondOpen(method: number): AmqpError {
  return connectionError(504, "second 'channel.open' seen", method);
}
