/** Consumers and their options. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import {
  acceptClose,
  beside,
  closed,
  consume,
  FILLED,
  type Group,
  getNone,
  known,
  opened,
  PARTNER,
  QUEUE,
  request,
  type Step,
  send,
  transcript,
} from '../transcript.ts';

const consumed = (fields: Fields = {}, channel = 1) => consume({ queue: QUEUE, ...fields }, channel);
const cancelled = request('basic.cancel', { consumerTag: 'ct' });
const ask = (fields: Fields, channel = 1): Step =>
  send('basic.consume', { queue: QUEUE, consumerTag: 'ct', ...fields }, channel);

export const basic: Group = {
  name: 'basic',
  rights: PARTNER,
  transcripts: [
    transcript('basic.qos', request('basic.qos', { prefetchCount: 5 })),
    transcript('basic.qos of the whole channel', request('basic.qos', { prefetchCount: 5, global: true })),
    transcript('basic.qos by bytes', send('basic.qos', { prefetchSize: 10, prefetchCount: 5 })),
    transcript('a consumer', consumed()),
    transcript('a consumer without a tag', consumed({ consumerTag: '' })),
    transcript('a consumer with nowait', ask({ nowait: true })),
    transcript('a consumer of a queue that is not there', ask({ queue: 'nope' })),
    transcript('a consumer of a queue of another organization', ask({ queue: 'vcp.beta.event.alarm' })),
    transcript('a consumer of a queue that the platform reads', ask({ queue: 'vcp.$U.command' })),
    transcript('a consumer without a queue name', ask({ queue: '' })),
    transcript('a consumer of the queue that was declared last', known(), consume({ queue: '' })),
    transcript('a tag that is in use', consumed(), ask({ queue: FILLED })),
    transcript('a tag that is in use, without acknowledgements', consumed(), ask({ noAck: true })),
    transcript('a tag that is in use on another channel', consumed(), opened(2), consumed({}, 2)),
    transcript('a tag that was cancelled', consumed(), cancelled, consumed()),
    transcript('a tag that was refused', ask({ queue: 'nope' }), acceptClose, opened(), consumed()),
    transcript('a cancel of a tag that is not there', request('basic.cancel', { consumerTag: 'zz' })),
    transcript('a cancel with nowait', consumed(), send('basic.cancel', { consumerTag: 'ct', nowait: true })),
    transcript('a basic.cancel-ok without a basic.cancel', send('basic.cancel-ok', { consumerTag: 'ct' })),
    transcript('an exclusive consumer', consumed({ exclusive: true })),
    transcript('a consumer beside an exclusive one', beside(consumed({ exclusive: true })), ask({})),
    transcript('an exclusive consumer beside another', beside(consumed()), ask({ exclusive: true })),
    transcript(
      'an exclusive consumer after another one has left',
      beside(consumed({ exclusive: true }), cancelled),
      consumed({ exclusive: true }),
    ),
    transcript(
      'a get from a queue with an exclusive consumer',
      beside(consumed({ exclusive: true })),
      send('basic.get', { queue: QUEUE }),
    ),
    transcript('consumers are counted', consumed(), known()),
    transcript('a consumer with no_local', consumed({ noLocal: true })),
    transcript('a consumer with an argument that is not known', consumed({ arguments: { 'x-unknown': 1 } })),
    transcript('a get from a queue that is empty', getNone(QUEUE)),
    transcript('a get from a queue that is not there', send('basic.get', { queue: 'nope' })),
    transcript(
      'a get from a queue of another organization',
      send('basic.get', { queue: 'vcp.beta.event.alarm' }),
    ),
    transcript('a basic.get without a queue name', send('basic.get', { queue: '' })),
    transcript('a get from the queue that was declared last', known(), getNone('')),
    transcript('an ack of a tag that is not there', send('basic.ack', { deliveryTag: 7 })),
    transcript('an ack of tag 0', send('basic.ack', { deliveryTag: 0 })),
    transcript(
      'an ack of all when nothing is unacknowledged',
      send('basic.ack', { deliveryTag: 0, multiple: true }),
    ),
    transcript('an ack up to a tag that is not there', send('basic.ack', { deliveryTag: 3, multiple: true })),
    transcript('a nack of a tag that is not there', send('basic.nack', { deliveryTag: 7 })),
    transcript(
      'a nack of all when nothing is unacknowledged',
      send('basic.nack', { deliveryTag: 0, multiple: true, requeue: true }),
    ),
    transcript('a reject of a tag that is not there', send('basic.reject', { deliveryTag: 7 })),
    transcript('basic.recover', request('basic.recover', { requeue: true })),
    transcript('basic.recover without requeue', send('basic.recover', { requeue: false })),
    transcript('basic.recover-async', send('basic.recover-async', { requeue: true })),
    transcript('basic.recover-async without requeue', send('basic.recover-async', { requeue: false })),
    transcript('a close of a channel with a consumer', consumed(), closed),
  ],
};
