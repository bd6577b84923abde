/**
 * One channel: methods in, replies out; everything that is decided is decided by the vhost's object behind the link.
 * The table at the end says which methods there are. Once the channel has been closed by us, only the client's
 * close-ok counts.
 */
import { randomBytes } from 'node:crypto';
import type { Delivery, VhostLinkDown } from '../../protocol/link/vhost.ts';
import { plainDeliveryBytes } from '../../protocol/link/vhost.ts';
import { EXCHANGE } from '../../protocol/routing-keys.ts';
import { Confirms } from './confirms.ts';
import { type Content, ContentAssembly, readPublish, unexpected } from './content.ts';
import { Unacked } from './unacked.ts';
import type { Uplink } from './uplink.ts';
import { AmqpError, channelError, connectionError, SilentClose } from './wire/amqp-error.ts';
import { decodeMethod, encodeMethod, type Fields, isKnownMethod, METHOD } from './wire/codec.ts';
import { encodeDelivery } from './wire/delivery.ts';

/** What a channel needs of its connection. */
export interface ChannelHost {
  readonly vhost: string;
  readonly username: string;
  readonly frameMax: number;
  write(bytes: Buffer, onTaken?: () => void): void;
  /** Asks for a flush at the end of this turn. */
  schedule(): void;
  /** Counts a publish. */
  published(): void;
  closed(channel: number): void;
}

type Handler = (channel: Channel, fields: Fields, method: number) => void;

export class Channel {
  readonly id: number;
  readonly #host: ChannelHost;
  readonly #uplink: Uplink;
  #state: 'open' | 'closing' = 'open';
  #content: ContentAssembly | undefined;
  #confirms: Confirms | undefined;
  #prefetch = 0;
  #lastQueue = '';
  readonly #unacked = new Unacked();
  readonly #tags = new Set<string>();

  constructor(id: number, host: ChannelHost, uplink: Uplink) {
    this.id = id;
    this.#host = host;
    this.#uplink = uplink;
  }

  // frames from the client

  takeMethod(method: number, args: Buffer): void {
    if (this.#state === 'closing') {
      if (method === METHOD.channelCloseOk) this.#host.closed(this.id);
      else if (method === METHOD.channelClose) this.#reply(METHOD.channelCloseOk, {});
      return;
    }
    if (this.#content) throw unexpected('content header', 'non content header frame instead');
    if (method === METHOD.basicPublish) {
      this.#content = new ContentAssembly(readPublish(args), this.#host.username);
      return;
    }
    const handler = HANDLERS[method];
    if (!handler) {
      if (!isKnownMethod(method)) throw new SilentClose(`unknown method ${method}`);
      throw connectionError(503, 'unimplemented method', method);
    }
    handler(this, decodeMethod(method, args), method);
  }

  takeHeader(payload: Buffer): void {
    if (this.#state === 'closing') return;
    if (!this.#content) throw connectionError(505, 'expected method frame, got non method frame instead');
    this.#publish(this.#content.takeHeader(payload));
  }

  takeBody(payload: Buffer): void {
    if (this.#state === 'closing') return;
    if (!this.#content) throw connectionError(505, 'expected method frame, got non method frame instead');
    this.#publish(this.#content.takeBody(payload));
  }

  #publish(content: Content | undefined): void {
    if (!content) return;
    this.#content = undefined;
    const tag = this.#confirms?.next();
    this.#host.published();
    this.#uplink.publish(content, (outcome) => {
      if (this.#state === 'closing') return;
      if (outcome instanceof AmqpError && outcome.severity === 'connection') throw outcome;
      if (outcome instanceof AmqpError) this.fail(outcome);
      else if (tag !== undefined) this.#confirm(tag, outcome);
    });
  }

  #confirm(tag: number, outcome: 'stored' | 'unstored'): void {
    this.#confirms?.settle(tag, outcome === 'stored' ? 'ack' : 'nack');
    this.#host.schedule();
  }

  /** Confirms gathered in this turn, as frames. */
  flushConfirms(): void {
    for (const { kind, tag, multiple } of this.#confirms?.take() ?? []) {
      const fields = { deliveryTag: tag, multiple };
      if (kind === 'ack') this.#reply(METHOD.basicAck, fields);
      else this.#reply(METHOD.basicNack, { ...fields, requeue: false });
    }
  }

  // frames from the object

  deliver(tag: string, delivery: Delivery): void {
    const bytes = delivery.bytes ?? plainDeliveryBytes(delivery);
    if (this.#state === 'closing') {
      // Its lease went back when the channel closed; its bytes are off the window.
      this.#uplink.drained(bytes);
      return;
    }
    if (!this.#tags.has(tag)) {
      // Cancelled while it was under way: it goes back.
      this.#uplink.settle('requeue', delivery.lease === 0 ? [] : [delivery.lease]);
      this.#uplink.drained(bytes);
      return;
    }
    const fields = {
      consumerTag: tag,
      deliveryTag: this.#unacked.add(delivery.lease === 0 ? null : delivery.lease),
      redelivered: delivery.redelivered,
      exchange: EXCHANGE,
      routingKey: delivery.routingKey,
    };
    const frames = encodeDelivery(
      this.id,
      { id: METHOD.basicDeliver, fields },
      delivery,
      this.#host.frameMax,
    );
    this.#host.write(frames, () => this.#uplink.drained(bytes));
  }

  // ends

  /** Closes the channel with an error of ours. */
  fail(error: AmqpError): void {
    if (this.#state === 'closing') return;
    this.#state = 'closing';
    this.#content = undefined;
    this.flushConfirms();
    this.#reply(METHOD.channelClose, {
      replyCode: error.code,
      replyText: error.text,
      classId: error.classId,
      methodId: error.methodId,
    });
    this.#uplink.send({ kind: 'close-channel', channel: this.id });
  }

  close(): void {
    this.#state = 'closing';
    this.flushConfirms();
    this.#uplink.send({ kind: 'close-channel', channel: this.id });
    this.#reply(METHOD.channelCloseOk, {});
    this.#host.closed(this.id);
  }

  // methods; the table below names them

  select(fields: Fields): void {
    this.#confirms ??= new Confirms();
    if (fields.nowait !== true) this.#reply(METHOD.confirmSelectOk, {});
  }

  qos(fields: Fields, method: number): void {
    const { prefetchSize, prefetchCount, global } = fields as {
      prefetchSize: number;
      prefetchCount: number;
      global: boolean;
    };
    if (prefetchSize !== 0) throw connectionError(540, `prefetch_size!=0 (${prefetchSize})`, method);
    if (global) this.#uplink.send({ kind: 'qos', channel: this.id, prefetch: prefetchCount });
    else this.#prefetch = prefetchCount;
    this.#reply(METHOD.basicQosOk, {});
  }

  consume(fields: Fields, method: number): void {
    const queue = this.#queueName(fields, method);
    const tag = String(fields.consumerTag) || `amq.ctag-${randomBytes(16).toString('base64url')}`;
    if (this.#tags.has(tag)) throw connectionError(530, `attempt to reuse consumer tag '${tag}'`, method);
    this.#tags.add(tag);
    const { noAck, exclusive } = fields as { noAck: boolean; exclusive: boolean };
    const prefetch = this.#prefetch;
    this.#uplink.request(
      (seq) => ({ kind: 'consume', seq, channel: this.id, tag, queue, noAck, exclusive, prefetch }),
      (answer) => {
        if (this.#refused(answer, method)) this.#tags.delete(tag);
        else if (fields.nowait !== true) this.#reply(METHOD.basicConsumeOk, { consumerTag: tag });
      },
    );
  }

  cancel(fields: Fields): void {
    const tag = String(fields.consumerTag);
    const reply = () => {
      if (fields.nowait !== true) this.#reply(METHOD.basicCancelOk, { consumerTag: tag });
    };
    if (!this.#tags.has(tag)) {
      reply();
      return;
    }
    this.#uplink.request(
      (seq) => ({ kind: 'cancel', seq, channel: this.id, tag }),
      () => {
        this.#tags.delete(tag);
        if (this.#state === 'open') reply();
      },
    );
  }

  get(fields: Fields, method: number): void {
    const queue = this.#queueName(fields, method);
    const noAck = fields.noAck === true;
    this.#uplink.request(
      (seq) => ({ kind: 'get', seq, channel: this.id, queue, noAck }),
      (answer) => {
        if (this.#refused(answer, method) || answer.kind !== 'got') return;
        const { delivery, messageCount } = answer;
        if (!delivery) {
          this.#reply(METHOD.basicGetEmpty, { clusterId: '' });
          return;
        }
        const reply = {
          deliveryTag: this.#unacked.add(noAck ? null : delivery.lease),
          redelivered: delivery.redelivered,
          exchange: EXCHANGE,
          routingKey: delivery.routingKey,
          messageCount,
        };
        const getOk = { id: METHOD.basicGetOk, fields: reply } as const;
        this.#host.write(encodeDelivery(this.id, getOk, delivery, this.#host.frameMax));
      },
    );
  }

  settle(fields: Fields, method: number): void {
    const tag = Number(fields.deliveryTag);
    const leases = this.#unacked.take(tag, fields.multiple === true);
    if (!leases) throw channelError(406, `unknown delivery tag ${tag}`, method);
    const outcome = method === METHOD.basicAck ? 'ack' : fields.requeue === true ? 'requeue' : 'discard';
    this.#uplink.settle(outcome, leases);
  }

  recover(fields: Fields, method: number): void {
    if (fields.requeue !== true) throw connectionError(540, 'requeue=false', method);
    this.#unacked.takeAll();
    this.#uplink.request(
      (seq) => ({ kind: 'recover', seq, channel: this.id }),
      () => {
        if (this.#state === 'open' && method === METHOD.basicRecover) this.#reply(METHOD.basicRecoverOk, {});
      },
    );
  }

  flow(fields: Fields, method: number): void {
    if (fields.active !== true) throw connectionError(540, 'active=false', method);
    this.#reply(METHOD.channelFlowOk, { active: true });
  }

  accessRequest(): void {
    this.#reply(METHOD.accessRequestOk, { ticket: 1 });
  }

  declareQueue(fields: Fields, method: number): void {
    const queue = String(fields.queue);
    if (queue === '') throw this.#accessRefused('queue', 'amq.gen', method);
    const flags = fields as { passive: boolean; durable: boolean; exclusive: boolean; autoDelete: boolean };
    const { passive, durable, exclusive, autoDelete } = flags;
    const argumentNames = Object.keys((fields.arguments as Fields | undefined) ?? {}).slice(0, 64);
    this.#uplink.request(
      (seq) => ({ kind: 'declare', seq, queue, passive, durable, exclusive, autoDelete, argumentNames }),
      (answer) => {
        if (this.#refused(answer, method) || answer.kind !== 'ok') return;
        this.#lastQueue = queue;
        if (fields.nowait === true) return;
        const { messageCount = 0, consumerCount = 0 } = answer;
        this.#reply(METHOD.queueDeclareOk, { queue, messageCount, consumerCount });
      },
    );
  }

  /** Only our own exchange exists, and it is not the client's to change. */
  declareExchange(fields: Fields, method: number): void {
    const name = String(fields.exchange);
    if (name !== EXCHANGE) {
      if (fields.passive !== true) throw this.#accessRefused('exchange', name, method);
      throw channelError(404, `no exchange '${name}' in vhost '${this.#host.vhost}'`, method);
    }
    const expected = { type: 'topic', durable: true, autoDelete: false, internal: false };
    const names = { type: 'type', durable: 'durable', autoDelete: 'auto_delete', internal: 'internal' };
    for (const key of Object.keys(expected) as (keyof typeof expected)[]) {
      if (fields.passive === true || fields[key] === expected[key]) continue;
      const what = `inequivalent arg '${names[key]}' for exchange '${name}' in vhost '${this.#host.vhost}': received '${fields[key]}' but current is '${expected[key]}'`;
      throw channelError(406, what, method);
    }
    if (fields.nowait !== true) this.#reply(METHOD.exchangeDeclareOk, {});
  }

  refuseExchange(fields: Fields, method: number): void {
    throw this.#accessRefused('exchange', String(fields.exchange ?? fields.destination), method);
  }

  refuseQueue(fields: Fields, method: number): void {
    throw this.#accessRefused('queue', String(fields.queue) || this.#lastQueue, method);
  }

  // shared

  #queueName(fields: Fields, method: number): string {
    const queue = String(fields.queue) || this.#lastQueue;
    if (queue === '') throw channelError(404, 'no previously declared queue', method);
    return queue;
  }

  #accessRefused(kind: 'queue' | 'exchange', name: string, method: number): AmqpError {
    const { vhost, username } = this.#host;
    return channelError(
      403,
      `access to ${kind} '${name}' in vhost '${vhost}' refused for user '${username}'`,
      method,
    );
  }

  /** Whether the object refused; the channel or connection then closes with its word. */
  #refused(answer: VhostLinkDown, method: number): boolean {
    if (this.#state === 'closing') return true;
    if (answer.kind !== 'refused') return false;
    const error = new AmqpError(answer.severity, answer.code, answer.text, method);
    if (error.severity === 'connection') throw error;
    this.fail(error);
    return true;
  }

  #reply(method: number, fields: Fields): void {
    this.#host.write(encodeMethod(method, this.id, fields));
  }
}

const refuseTx: Handler = (_channel, _fields, method) => {
  throw connectionError(540, 'transactions are not supported, use publisher confirms', method);
};
const refuseExchange: Handler = (channel, fields, method) => channel.refuseExchange(fields, method);
const refuseQueue: Handler = (channel, fields, method) => channel.refuseQueue(fields, method);
const settle: Handler = (channel, fields, method) => channel.settle(fields, method);

const HANDLERS: Record<number, Handler> = {
  [METHOD.channelOpen]: (_channel, _fields, method) => {
    throw connectionError(504, "second 'channel.open' seen", method);
  },
  [METHOD.channelClose]: (channel) => channel.close(),
  [METHOD.channelCloseOk]: () => {},
  [METHOD.channelFlow]: (channel, fields, method) => channel.flow(fields, method),
  [METHOD.accessRequest]: (channel) => channel.accessRequest(),
  [METHOD.exchangeDeclare]: (channel, fields, method) => channel.declareExchange(fields, method),
  [METHOD.exchangeDelete]: refuseExchange,
  [METHOD.exchangeBind]: refuseExchange,
  [METHOD.exchangeUnbind]: refuseExchange,
  [METHOD.queueDeclare]: (channel, fields, method) => channel.declareQueue(fields, method),
  [METHOD.queueBind]: refuseQueue,
  [METHOD.queueUnbind]: refuseQueue,
  [METHOD.queuePurge]: refuseQueue,
  [METHOD.queueDelete]: refuseQueue,
  [METHOD.basicQos]: (channel, fields, method) => channel.qos(fields, method),
  [METHOD.basicConsume]: (channel, fields, method) => channel.consume(fields, method),
  [METHOD.basicCancel]: (channel, fields) => channel.cancel(fields),
  [METHOD.basicCancelOk]: () => {},
  [METHOD.basicGet]: (channel, fields, method) => channel.get(fields, method),
  [METHOD.basicAck]: settle,
  [METHOD.basicNack]: settle,
  [METHOD.basicReject]: settle,
  [METHOD.basicRecover]: (channel, fields, method) => channel.recover(fields, method),
  [METHOD.basicRecoverAsync]: (channel, fields, method) => channel.recover(fields, method),
  [METHOD.confirmSelect]: (channel, fields) => channel.select(fields),
  [METHOD.txSelect]: refuseTx,
  [METHOD.txCommit]: refuseTx,
  [METHOD.txRollback]: refuseTx,
};
