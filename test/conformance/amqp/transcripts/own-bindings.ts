/** Bindings of partner queues, the messages that they route, and the priority of consumers [C-6.6]. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import { type Group, publish, QUEUE, type Step, send, type Transcript, until } from '../transcript.ts';
import { declare, declared, OWNER, own } from './own-queues.ts';

const bind = (fields: Fields = {}) =>
  send('queue.bind', { queue: '$own', exchange: 'vcp', routingKey: '$U.event.alarm', ...fields });
const bound = (fields: Fields = {}) => [bind(fields), until('queue.bind-ok')];
const unbind = (fields: Fields = {}) =>
  send('queue.unbind', { queue: '$own', exchange: 'vcp', routingKey: '$U.event.alarm', ...fields });
const consume = (consumerTag: string, fields: Fields = {}) => [
  send('basic.consume', { queue: '$own', consumerTag, ...fields }),
  until('basic.consume-ok'),
];
const refusedBind = (title: string, fields: Fields): Transcript => own(title, ...declared(), bind(fields));
const priority = (value: unknown): Step =>
  send('basic.consume', { queue: '$own', consumerTag: 'ct', arguments: { 'x-priority': value } });

export const ownBindings: Group = {
  name: 'own bindings',
  rights: OWNER,
  transcripts: [
    own('an own queue is bound', ...declared(), ...bound()),
    own('an own queue is bound twice', ...declared(), ...bound(), ...bound()),
    own('an own queue is bound to a pattern', ...declared(), ...bound({ routingKey: '$U.event.#' })),
    own('an own queue is bound with nowait', ...declared(), bind({ nowait: true })),
    own('the queue that was declared last is bound', ...declared(), ...bound({ queue: '' })),
    own(
      'the queue without a name and a key is bound to its name',
      ...declared(),
      bind({ queue: '', routingKey: '' }),
    ),
    own('no queue is bound', bind({ queue: '' })),
    own('a queue that is not there is bound', bind()),
    refusedBind('an own queue is bound to an exchange that is not there', { exchange: 'nope' }),
    refusedBind('an own queue is bound to the default exchange', { exchange: '' }),
    refusedBind('an own queue is bound to another exchange', { exchange: 'amq.topic' }),
    refusedBind('an own queue is bound to events of another organization', {
      routingKey: 'beta.event.alarm',
    }),
    refusedBind('an own queue is bound to everything', { routingKey: '#' }),
    refusedBind('an own queue is bound to commands', { routingKey: '$U.command.mode' }),
    refusedBind('an own queue is bound to an empty key', { routingKey: '' }),
    refusedBind('an own queue is bound with an argument', { arguments: { 'x-unknown': 1 } }),
    own('a queue of ours is bound by its partner', bind({ queue: QUEUE })),
    own('an own queue is unbound', ...declared(), ...bound(), unbind(), until('queue.unbind-ok')),
    own('a binding that is not there is unbound', ...declared(), unbind(), until('queue.unbind-ok')),
    own('a queue that is not there is unbound', unbind()),
    own('a queue is unbound from an exchange that is not there', ...declared(), unbind({ exchange: 'nope' })),
    own(
      'a queue is unbound from a key that may not be bound',
      ...declared(),
      unbind({ routingKey: 'beta.event.alarm' }),
    ),
    own(
      'an own queue is published to directly',
      ...declared(),
      publish('x', { exchange: '', routingKey: '$own' }),
    ),
    own('a consumer with a priority', ...declared(), priority(5), until('basic.consume-ok')),
    own('a consumer with a negative priority', ...declared(), priority(-5), until('basic.consume-ok')),
    own('a consumer with a priority that is text', ...declared(), priority('5')),
    own('a consumer with a priority that is a fraction', ...declared(), priority(1.5)),
    own('a consumer with a priority that is true', ...declared(), priority(true)),
    own(
      'a consumer with an argument x-cancel-on-ha-failover that is text',
      ...declared(),
      send('basic.consume', {
        queue: '$own',
        consumerTag: 'ct',
        arguments: { 'x-cancel-on-ha-failover': 'yes' },
      }),
    ),
    own(
      'consumers of an own queue are counted',
      ...declared(),
      ...consume('one'),
      ...consume('two'),
      declare(),
      until('queue.declare-ok'),
    ),
  ],
};
