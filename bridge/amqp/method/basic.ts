/** The methods of class basic except publish: consumers, gets and the settlement of deliveries. */
import { randomBytes } from 'node:crypto';
import { EXCHANGE } from '../../../protocol/routing-keys.ts';
import type { MethodHandler } from '../channel.ts';
import { channelError, connectionError } from '../wire/amqp-error.ts';
import { METHOD } from '../wire/codec.ts';
import { encodeDelivery } from '../wire/delivery.ts';
import { behindStrings, readArguments } from '../wire/table.ts';
import { queueOf } from './method.ts';

const INTEGERS = ['byte', 'unsignedbyte', 'short', 'unsignedshort', 'signedint', 'unsignedint', 'long'];

export const qos: MethodHandler = (channel, fields, method) => {
  const { prefetchSize, prefetchCount, global } = fields as {
    prefetchSize: number;
    prefetchCount: number;
    global: boolean;
  };
  if (prefetchSize !== 0) throw connectionError(540, `prefetch_size!=0 (${prefetchSize})`, method);
  channel.setPrefetch(prefetchCount, global);
  channel.reply(METHOD.basicQosOk, {});
};

export const consume: MethodHandler = (channel, fields, method, args) => {
  const queue = queueOf(channel, fields, method);
  const tag = String(fields.consumerTag) || `amq.ctag-${randomBytes(16).toString('base64url')}`;
  if (channel.tags.has(tag)) throw connectionError(530, `attempt to reuse consumer tag '${tag}'`, method);
  channel.tags.add(tag);
  const { noAck, exclusive } = fields as { noAck: boolean; exclusive: boolean };
  const { id, prefetch } = channel;
  const priority = priorityOf(args, `queue '${queue}' in vhost '${channel.host.vhost}'`, method);
  channel.request(
    method,
    (seq) => ({ kind: 'consume', seq, channel: id, tag, queue, noAck, exclusive, prefetch, priority }),
    () => {
      if (fields.nowait !== true) channel.reply(METHOD.basicConsumeOk, { consumerTag: tag });
    },
  );
};

/** Returns the consumer's `x-priority`, 0 if absent; `what` names its queue in errors. */
function priorityOf(args: Buffer, what: string, method: number): number {
  let priority = 0;
  for (const { name, type, value } of readArguments(args, behindStrings(args, 2) + 1)) {
    const invalid = (why: string) => channelError(406, `invalid arg '${name}' for ${what}: ${why}`, method);
    if (name === 'x-priority') {
      if (!Number.isSafeInteger(value) || !INTEGERS.includes(type))
        throw invalid(`"expected integer, got ${type}"`);
      priority = Number(value);
    } else if (name === 'x-cancel-on-ha-failover' && type !== 'bool') {
      throw invalid(`{unacceptable_type,${type}}`);
    }
  }
  return priority;
}

export const cancel: MethodHandler = (channel, fields, method) => {
  const tag = String(fields.consumerTag);
  const reply = () => {
    channel.tags.delete(tag);
    if (fields.nowait !== true) channel.reply(METHOD.basicCancelOk, { consumerTag: tag });
  };
  if (!channel.tags.has(tag)) reply();
  else channel.request(method, (seq) => ({ kind: 'cancel', seq, channel: channel.id, tag }), reply);
};

export const get: MethodHandler = (channel, fields, method) => {
  const queue = queueOf(channel, fields, method);
  const noAck = fields.noAck === true;
  channel.request(
    method,
    (seq) => ({ kind: 'get', seq, channel: channel.id, queue, noAck }),
    (answer) => {
      if (answer.kind !== 'got') return;
      const { delivery, messageCount } = answer;
      if (!delivery) {
        channel.reply(METHOD.basicGetEmpty, { clusterId: '' });
        return;
      }
      const reply = {
        deliveryTag: channel.unacked.add(noAck ? null : delivery.lease),
        redelivered: delivery.redelivered,
        exchange: EXCHANGE,
        routingKey: delivery.routingKey,
        messageCount,
      };
      const getOk = { id: METHOD.basicGetOk, fields: reply } as const;
      channel.host.write(encodeDelivery(channel.id, getOk, delivery, channel.host.frameMax));
    },
  );
};

/** ack, nack and reject. */
export const settle: MethodHandler = (channel, fields, method) => {
  const tag = Number(fields.deliveryTag);
  const leases = channel.unacked.take(tag, fields.multiple === true);
  if (!leases) throw channelError(406, `unknown delivery tag ${tag}`, method);
  const outcome = method === METHOD.basicAck ? 'ack' : fields.requeue === true ? 'requeue' : 'discard';
  channel.settle(outcome, leases);
};

export const recover: MethodHandler = (channel, fields, method) => {
  if (fields.requeue !== true) throw connectionError(540, 'requeue=false', method);
  channel.unacked.takeAll();
  channel.request(
    method,
    (seq) => ({ kind: 'recover', seq, channel: channel.id }),
    () => {
      if (method === METHOD.basicRecover) channel.reply(METHOD.basicRecoverOk, {});
    },
  );
};
