/** The methods of class queue: the object decides, the bridge forwards its answer. */
import { EXCHANGE } from '../../../protocol/routing-keys.ts';
import type { Channel, MethodHandler } from '../channel.ts';
import { channelError } from '../wire/amqp-error.ts';
import { type Fields, METHOD } from '../wire/codec.ts';
import { behindStrings, readArguments } from '../wire/table.ts';
import { accessRefused, checkNotDefault, queueOf } from './method.ts';

export const declareQueue: MethodHandler = (channel, fields, method, args) => {
  // As in RabbitMQ: line breaks are removed from the name.
  const queue = String(fields.queue).replace(/[\r\n]/g, '');
  const flags = fields as { passive: boolean; durable: boolean; exclusive: boolean; autoDelete: boolean };
  const { passive, durable, exclusive, autoDelete } = flags;
  const typed = readArguments(args, behindStrings(args, 1) + 1);
  channel.request(
    method,
    (seq) => ({
      ...{ kind: 'declare', seq, queue, passive, durable, exclusive, autoDelete },
      arguments: typed,
    }),
    (answer) => {
      if (answer.kind !== 'ok') return;
      const { queue: name = queue, messageCount = 0, consumerCount = 0 } = answer;
      channel.lastQueue = name;
      if (fields.nowait === true) return;
      channel.reply(METHOD.queueDeclareOk, { queue: name, messageCount, consumerCount });
    },
  );
};

/** queue.bind and queue.unbind; a queue can be bound only to our exchange. */
export const bindQueue: MethodHandler = (channel, fields, method) => {
  const queue = queueOf(channel, fields, method);
  const exchange = String(fields.exchange);
  checkNotDefault(exchange, method);
  if (exchange.startsWith('amq.')) throw accessRefused(channel, 'exchange', exchange, method);
  // As in RabbitMQ: if queue name and routing key are both empty, the name of the queue that was declared
  // last is used for both.
  const isShort = fields.queue === '' && fields.routingKey === '';
  const pattern = isShort ? queue : String(fields.routingKey);
  const isBind = method === METHOD.queueBind;
  if (exchange !== EXCHANGE) {
    if (isBind) throw channelError(404, `no exchange '${exchange}' in vhost '${channel.host.vhost}'`, method);
    // Removing a binding that does not exist succeeds.
    if (fields.nowait !== true) channel.reply(METHOD.queueUnbindOk, {});
    return;
  }
  channel.request(
    method,
    (seq) => ({ kind: isBind ? 'bind' : 'unbind', seq, queue, pattern }),
    () => {
      if (fields.nowait === true) return;
      channel.reply(isBind ? METHOD.queueBindOk : METHOD.queueUnbindOk, {});
    },
  );
};

export const purgeQueue: MethodHandler = (channel, fields, method) => {
  const queue = queueOf(channel, fields, method);
  channel.request(
    method,
    (seq) => ({ kind: 'purge', seq, queue }),
    (answer) => replyCount(channel, fields, METHOD.queuePurgeOk, answer.messageCount),
  );
};

export const deleteQueue: MethodHandler = (channel, fields, method) => {
  const queue = queueOf(channel, fields, method);
  const { ifUnused, ifEmpty } = fields as { ifUnused: boolean; ifEmpty: boolean };
  channel.request(
    method,
    (seq) => ({ kind: 'delete', seq, queue, ifUnused, ifEmpty }),
    (answer) => replyCount(channel, fields, METHOD.queueDeleteOk, answer.messageCount),
  );
};

function replyCount(channel: Channel, fields: Fields, method: number, messageCount = 0): void {
  if (fields.nowait !== true) channel.reply(method, { messageCount });
}
