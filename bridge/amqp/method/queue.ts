/** The methods of class queue. */
import { type Fields, METHOD } from '../wire/codec.ts';
import { accessRefused, type MethodHandler } from './method.ts';

export const declareQueue: MethodHandler = (channel, fields, method) => {
  const queue = String(fields.queue);
  if (queue === '') throw accessRefused(channel, 'queue', 'amq.gen', method);
  const flags = fields as { passive: boolean; durable: boolean; exclusive: boolean; autoDelete: boolean };
  const { passive, durable, exclusive, autoDelete } = flags;
  const argumentNames = Object.keys((fields.arguments as Fields | undefined) ?? {}).slice(0, 64);
  channel.request(
    method,
    (seq) => ({ kind: 'declare', seq, queue, passive, durable, exclusive, autoDelete, argumentNames }),
    (answer) => {
      if (answer.kind !== 'ok') return;
      channel.lastQueue = queue;
      if (fields.nowait === true) return;
      const { messageCount = 0, consumerCount = 0 } = answer;
      channel.reply(METHOD.queueDeclareOk, { queue, messageCount, consumerCount });
    },
  );
};

export const refuseQueue: MethodHandler = (channel, fields, method) => {
  throw accessRefused(channel, 'queue', String(fields.queue) || channel.lastQueue, method);
};
