/** Consumers and their options. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import {
  BYE,
  beside,
  consume,
  FILLED,
  type Group,
  known,
  PARTNER,
  QUEUE,
  type Step,
  send,
  type Transcript,
  until,
} from '../transcript.ts';

const ask = (fields: Fields, channel = 1): Step =>
  send('basic.consume', { queue: QUEUE, consumerTag: 'ct', ...fields }, channel);
const one = (title: string, ...steps: Step[]): Transcript => ({ title, steps });

export const basic: Group = {
  name: 'basic',
  rights: PARTNER,
  transcripts: [
    one('basic.qos', send('basic.qos', { prefetchCount: 5 }), until('basic.qos-ok')),
    one(
      'basic.qos of the whole channel',
      send('basic.qos', { prefetchCount: 5, global: true }),
      until('basic.qos-ok'),
    ),
    one('basic.qos by bytes', send('basic.qos', { prefetchSize: 10, prefetchCount: 5 })),
    one('a consumer', ...consume({ queue: QUEUE })),
    one('a consumer without a tag', ...consume({ queue: QUEUE, consumerTag: '' })),
    one('a consumer with nowait', ask({ nowait: true })),
    one('a consumer of a queue that is not there', ask({ queue: 'nope' })),
    one('a consumer of a queue of another organization', ask({ queue: 'vcp.beta.event.alarm' })),
    one('a consumer of a queue that the platform reads', ask({ queue: 'vcp.$U.command' })),
    one('a consumer of no queue', ask({ queue: '' })),
    one('a consumer of the queue that was declared last', ...known(), ...consume({ queue: '' })),
    one('a tag that is in use', ...consume({ queue: QUEUE }), ask({ queue: FILLED })),
    one('a tag that is in use, without acknowledgements', ...consume({ queue: QUEUE }), ask({ noAck: true })),
    one(
      'a tag that is in use on another channel',
      ...consume({ queue: QUEUE }),
      send('channel.open', {}, 2),
      until('channel.open-ok'),
      ...consume({ queue: QUEUE }, 2),
    ),
    one(
      'a tag that was cancelled',
      ...consume({ queue: QUEUE }),
      send('basic.cancel', { consumerTag: 'ct' }),
      until('basic.cancel-ok'),
      ...consume({ queue: QUEUE }),
    ),
    one(
      'a tag that was refused',
      ask({ queue: 'nope' }),
      (stage) => stage.acceptClose(),
      send('channel.open'),
      until('channel.open-ok'),
      ...consume({ queue: QUEUE }),
    ),
    one(
      'a cancel of a tag that is not there',
      send('basic.cancel', { consumerTag: 'zz' }),
      until('basic.cancel-ok'),
    ),
    one(
      'a cancel with nowait',
      ...consume({ queue: QUEUE }),
      send('basic.cancel', { consumerTag: 'ct', nowait: true }),
    ),
    one('an answer to a cancel that nobody sent', send('basic.cancel-ok', { consumerTag: 'ct' })),
    one('an exclusive consumer', ...consume({ queue: QUEUE, exclusive: true })),
    one('a consumer beside an exclusive one', beside(...consume({ queue: QUEUE, exclusive: true })), ask({})),
    one(
      'an exclusive consumer beside another',
      beside(...consume({ queue: QUEUE })),
      ask({ exclusive: true }),
    ),
    one(
      'an exclusive consumer behind one that has left',
      beside(
        ...consume({ queue: QUEUE, exclusive: true }),
        send('basic.cancel', { consumerTag: 'ct' }),
        until('basic.cancel-ok'),
      ),
      ...consume({ queue: QUEUE, exclusive: true }),
    ),
    one(
      'a get from a queue with an exclusive consumer',
      beside(...consume({ queue: QUEUE, exclusive: true })),
      send('basic.get', { queue: QUEUE }),
    ),
    one('consumers are counted', ...consume({ queue: QUEUE }), ...known()),
    one('a consumer that wants none of its own', ...consume({ queue: QUEUE, noLocal: true })),
    one(
      'a consumer with an argument that is not known',
      ...consume({ queue: QUEUE, arguments: { 'x-unknown': 1 } }),
    ),
    one('a get from a queue that is empty', send('basic.get', { queue: QUEUE }), until('basic.get-empty')),
    one('a get from a queue that is not there', send('basic.get', { queue: 'nope' })),
    one('a get from a queue of another organization', send('basic.get', { queue: 'vcp.beta.event.alarm' })),
    one('a get from no queue', send('basic.get', { queue: '' })),
    one(
      'a get from the queue that was declared last',
      ...known(),
      send('basic.get', { queue: '' }),
      until('basic.get-empty'),
    ),
    one('an ack of a tag that is not there', send('basic.ack', { deliveryTag: 7 })),
    one('an ack of tag 0', send('basic.ack', { deliveryTag: 0 })),
    one('an ack of all that there is of nothing', send('basic.ack', { deliveryTag: 0, multiple: true })),
    one('an ack up to a tag that is not there', send('basic.ack', { deliveryTag: 3, multiple: true })),
    one('a nack of a tag that is not there', send('basic.nack', { deliveryTag: 7 })),
    one(
      'a nack of all that there is of nothing',
      send('basic.nack', { deliveryTag: 0, multiple: true, requeue: true }),
    ),
    one('a reject of a tag that is not there', send('basic.reject', { deliveryTag: 7 })),
    one('basic.recover', send('basic.recover', { requeue: true }), until('basic.recover-ok')),
    one('basic.recover without requeue', send('basic.recover', { requeue: false })),
    one('basic.recover-async', send('basic.recover-async', { requeue: true })),
    one('basic.recover-async without requeue', send('basic.recover-async', { requeue: false })),
    one(
      'a close of a channel with a consumer',
      ...consume({ queue: QUEUE }),
      send('channel.close', BYE),
      until('channel.close-ok'),
    ),
  ],
};
