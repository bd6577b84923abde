/** Bindings of partner queues, the messages that they route, and the priority of consumers [C-6.6]. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import {
  type Group,
  publish,
  QUEUE,
  request,
  type Step,
  send,
  type Transcript,
  transcript,
  until,
} from '../transcript.ts';
import { declared, OWNER } from './partner-queues.ts';

const BINDING = { queue: '$own', exchange: 'vcp', routingKey: '$U.event.alarm' };
const bind = (fields: Fields = {}) => send('queue.bind', { ...BINDING, ...fields });
const bound = (fields: Fields = {}) => [bind(fields), until('queue.bind-ok')];
const unbind = (fields: Fields = {}) => send('queue.unbind', { ...BINDING, ...fields });
const unbound = request('queue.unbind', BINDING);
const consume = (consumerTag: string) => request('basic.consume', { queue: '$own', consumerTag });
const binding = (title: string, fields: Fields): Transcript => transcript(title, declared(), bind(fields));
const consumeWith = (name: string, value: unknown): Step =>
  send('basic.consume', { queue: '$own', consumerTag: 'ct', arguments: { [name]: value } });
const priority = (value: unknown) => consumeWith('x-priority', value);

export const partnerBindings: Group = {
  name: 'partner bindings',
  rights: OWNER,
  transcripts: [
    transcript('a partner queue is bound', declared(), bound()),
    transcript('a partner queue is bound twice', declared(), bound(), bound()),
    transcript('a partner queue is bound to a pattern', declared(), bound({ routingKey: '$U.event.#' })),
    transcript('a partner queue is bound with nowait', declared(), bind({ nowait: true })),
    transcript('the queue that was declared last is bound', declared(), bound({ queue: '' })),
    binding('the queue without a name and a key is bound to its name', { queue: '', routingKey: '' }),
    transcript('queue.bind without a queue name and without an earlier declaration', bind({ queue: '' })),
    transcript('a queue that is not there is bound', bind()),
    binding('a partner queue is bound to an exchange that is not there', { exchange: 'nope' }),
    binding('a partner queue is bound to the default exchange', { exchange: '' }),
    binding('a partner queue is bound to another exchange', { exchange: 'amq.topic' }),
    binding('a partner queue is bound to events of another organization', {
      routingKey: 'beta.event.alarm',
    }),
    binding('a partner queue is bound to everything', { routingKey: '#' }),
    binding('a partner queue is bound to commands', { routingKey: '$U.command.mode' }),
    binding('a partner queue is bound to an empty key', { routingKey: '' }),
    binding('a partner queue is bound with an argument', { arguments: { 'x-unknown': 1 } }),
    transcript('an event queue is bound by its partner', bind({ queue: QUEUE })),
    transcript('a partner queue is unbound', declared(), bound(), unbound),
    transcript('a binding that is not there is unbound', declared(), unbound),
    transcript('a queue that is not there is unbound', unbind()),
    transcript(
      'a queue is unbound from an exchange that is not there',
      declared(),
      unbind({ exchange: 'nope' }),
    ),
    transcript(
      'a queue is unbound from a key that may not be bound',
      declared(),
      unbind({ routingKey: 'beta.event.alarm' }),
    ),
    transcript(
      'a partner queue is published to directly',
      declared(),
      publish('x', { exchange: '', routingKey: '$own' }),
    ),
    transcript('a consumer with a priority', declared(), priority(5), until('basic.consume-ok')),
    transcript('a consumer with a negative priority', declared(), priority(-5), until('basic.consume-ok')),
    transcript('a consumer with a priority that is text', declared(), priority('5')),
    transcript('a consumer with a priority that is a fraction', declared(), priority(1.5)),
    transcript('a consumer with a priority that is true', declared(), priority(true)),
    transcript(
      'a consumer with an argument x-cancel-on-ha-failover that is text',
      declared(),
      consumeWith('x-cancel-on-ha-failover', 'yes'),
    ),
    transcript(
      'consumers of a partner queue are counted',
      declared(),
      consume('one'),
      consume('two'),
      declared(),
    ),
  ],
};
