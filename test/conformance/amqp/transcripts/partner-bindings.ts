/** Bindings of partner queues, the messages that they route, and the priority of consumers [C-6.6]. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import { type Group, publish, QUEUE, type Step, send, type Transcript, until } from '../transcript.ts';
import { declare, declared, OWNER, transcript } from './partner-queues.ts';

const bind = (fields: Fields = {}) =>
  send('queue.bind', { queue: '$own', exchange: 'vcp', routingKey: '$U.event.alarm', ...fields });
const bound = (fields: Fields = {}) => [bind(fields), until('queue.bind-ok')];
const unbind = (fields: Fields = {}) =>
  send('queue.unbind', { queue: '$own', exchange: 'vcp', routingKey: '$U.event.alarm', ...fields });
const consume = (consumerTag: string, fields: Fields = {}) => [
  send('basic.consume', { queue: '$own', consumerTag, ...fields }),
  until('basic.consume-ok'),
];
const refusedBind = (title: string, fields: Fields): Transcript =>
  transcript(title, ...declared(), bind(fields));
const priority = (value: unknown): Step =>
  send('basic.consume', { queue: '$own', consumerTag: 'ct', arguments: { 'x-priority': value } });

export const partnerBindings: Group = {
  name: 'partner bindings',
  rights: OWNER,
  transcripts: [
    transcript('a partner queue is bound', ...declared(), ...bound()),
    transcript('a partner queue is bound twice', ...declared(), ...bound(), ...bound()),
    transcript(
      'a partner queue is bound to a pattern',
      ...declared(),
      ...bound({ routingKey: '$U.event.#' }),
    ),
    transcript('a partner queue is bound with nowait', ...declared(), bind({ nowait: true })),
    transcript('the queue that was declared last is bound', ...declared(), ...bound({ queue: '' })),
    transcript(
      'the queue without a name and a key is bound to its name',
      ...declared(),
      bind({ queue: '', routingKey: '' }),
    ),
    transcript('no queue is bound', bind({ queue: '' })),
    transcript('a queue that is not there is bound', bind()),
    refusedBind('a partner queue is bound to an exchange that is not there', { exchange: 'nope' }),
    refusedBind('a partner queue is bound to the default exchange', { exchange: '' }),
    refusedBind('a partner queue is bound to another exchange', { exchange: 'amq.topic' }),
    refusedBind('a partner queue is bound to events of another organization', {
      routingKey: 'beta.event.alarm',
    }),
    refusedBind('a partner queue is bound to everything', { routingKey: '#' }),
    refusedBind('a partner queue is bound to commands', { routingKey: '$U.command.mode' }),
    refusedBind('a partner queue is bound to an empty key', { routingKey: '' }),
    refusedBind('a partner queue is bound with an argument', { arguments: { 'x-unknown': 1 } }),
    transcript('a queue of ours is bound by its partner', bind({ queue: QUEUE })),
    transcript('a partner queue is unbound', ...declared(), ...bound(), unbind(), until('queue.unbind-ok')),
    transcript('a binding that is not there is unbound', ...declared(), unbind(), until('queue.unbind-ok')),
    transcript('a queue that is not there is unbound', unbind()),
    transcript(
      'a queue is unbound from an exchange that is not there',
      ...declared(),
      unbind({ exchange: 'nope' }),
    ),
    transcript(
      'a queue is unbound from a key that may not be bound',
      ...declared(),
      unbind({ routingKey: 'beta.event.alarm' }),
    ),
    transcript(
      'a partner queue is published to directly',
      ...declared(),
      publish('x', { exchange: '', routingKey: '$own' }),
    ),
    transcript('a consumer with a priority', ...declared(), priority(5), until('basic.consume-ok')),
    transcript('a consumer with a negative priority', ...declared(), priority(-5), until('basic.consume-ok')),
    transcript('a consumer with a priority that is text', ...declared(), priority('5')),
    transcript('a consumer with a priority that is a fraction', ...declared(), priority(1.5)),
    transcript('a consumer with a priority that is true', ...declared(), priority(true)),
    transcript(
      'a consumer with an argument x-cancel-on-ha-failover that is text',
      ...declared(),
      send('basic.consume', {
        queue: '$own',
        consumerTag: 'ct',
        arguments: { 'x-cancel-on-ha-failover': 'yes' },
      }),
    ),
    transcript(
      'consumers of a partner queue are counted',
      ...declared(),
      ...consume('one'),
      ...consume('two'),
      declare(),
      until('queue.declare-ok'),
    ),
  ],
};
