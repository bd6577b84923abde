/** Event queues and our exchanges: permissions, and when a declaration counts as equal. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import {
  FILLED,
  filled,
  type Group,
  PARTNER,
  QUEUE,
  request,
  send,
  type Transcript,
  together,
  transcript,
  until,
} from '../transcript.ts';

const TOPIC = { exchange: 'vcp', type: 'topic', durable: true };
const DURABLE = { queue: QUEUE, durable: true };
const EXCHANGES = { destination: 'vcp', source: 'vcp', routingKey: 'x' };

const passive = (title: string, queue: string): Transcript =>
  transcript(`a passive declaration of ${title}`, send('queue.declare', { queue, passive: true }));
const declared = (title: string, fields: Fields): Transcript =>
  transcript(`an event queue that is declared ${title}`, send('queue.declare', { ...DURABLE, ...fields }));
const exchange = (title: string, fields: Fields): Transcript =>
  transcript(`the exchange vcp that is declared ${title}`, send('exchange.declare', { ...TOPIC, ...fields }));
const one = (title: string, method: string, fields: Fields) => transcript(title, send(method, fields));

export const queues: Group = {
  name: 'queues',
  rights: PARTNER,
  transcripts: [
    passive('an event queue', QUEUE),
    { ...passive('an event queue that holds two messages', FILLED), fill: ['a', 'b'] },
    passive('a queue that is not there', 'nope'),
    passive('an event queue that is not there', 'vcp.$U.nothing'),
    passive('a queue of another organization', 'vcp.beta.event.alarm'),
    passive('a queue that the platform reads', 'vcp.$U.command'),
    passive('a queue with a reserved name', 'amq.nope'),
    transcript(
      'a passive declaration with other flags',
      request('queue.declare', { queue: QUEUE, passive: true, exclusive: true, autoDelete: true }),
    ),
    one('a passive declaration without a name', 'queue.declare', { queue: '', passive: true }),
    transcript(
      'a passive declaration without a name, after one with a name',
      request('queue.declare', { queue: QUEUE, passive: true }),
      send('queue.declare', { queue: '', passive: true }),
    ),
    one('a passive declaration with nowait', 'queue.declare', { queue: QUEUE, passive: true, nowait: true }),
    one('a passive declaration with nowait of a queue that is not there', 'queue.declare', {
      queue: 'nope',
      passive: true,
      nowait: true,
    }),
    one('an event queue that is not there, declared', 'queue.declare', {
      queue: 'vcp.$U.nothing',
      durable: true,
    }),
    one('a queue of another organization, declared', 'queue.declare', { queue: 'vcp.beta.event.alarm' }),
    one('an event queue is bound', 'queue.bind', { queue: QUEUE, exchange: 'vcp', routingKey: 'x' }),
    one('an event queue is unbound', 'queue.unbind', { queue: QUEUE, exchange: 'vcp', routingKey: 'x' }),
    one('an event queue is deleted', 'queue.delete', { queue: QUEUE }),
    one('an event queue is deleted if it is unused', 'queue.delete', { queue: QUEUE, ifUnused: true }),
    one('an event queue is purged', 'queue.purge', { queue: QUEUE }),
    one('a queue of another organization is purged', 'queue.purge', { queue: 'vcp.beta.event.alarm' }),
    one('a queue of another organization is deleted', 'queue.delete', { queue: 'vcp.beta.event.alarm' }),
    one('a new exchange is declared', 'exchange.declare', { ...TOPIC, exchange: 'mine' }),
    one('an exchange with a reserved name', 'exchange.declare', { ...TOPIC, exchange: 'amq.mine' }),
    one('the default exchange is declared', 'exchange.declare', { ...TOPIC, exchange: '' }),
    one('an exchange of an unknown type', 'exchange.declare', { ...TOPIC, type: 'zzz' }),
    one('a new exchange of an unknown type is declared', 'exchange.declare', {
      exchange: 'mine',
      type: 'zzz',
    }),
    one('an exchange without a type', 'exchange.declare', { ...TOPIC, type: '' }),
    one('the exchange vcp is deleted', 'exchange.delete', { exchange: 'vcp' }),
    one('an exchange that is not there is deleted', 'exchange.delete', { exchange: 'nope' }),
    one('the default exchange is deleted', 'exchange.delete', { exchange: '' }),
    one('an exchange is bound', 'exchange.bind', EXCHANGES),
    one('an exchange is unbound', 'exchange.unbind', EXCHANGES),
    one('a passive declaration of an exchange that is not there', 'exchange.declare', {
      exchange: 'nope',
      passive: true,
    }),
    one('a passive declaration of an exchange that every vhost of RabbitMQ has', 'exchange.declare', {
      exchange: 'amq.topic',
      passive: true,
    }),
    one('a passive declaration of the default exchange', 'exchange.declare', { exchange: '', passive: true }),
    transcript(
      'a passive declaration of the exchange vcp, whatever its type',
      request('exchange.declare', { exchange: 'vcp', type: 'fanout', passive: true }),
    ),
    one('a passive declaration of the exchange vcp, of an unknown type', 'exchange.declare', {
      exchange: 'vcp',
      type: 'zzz',
      passive: true,
    }),
    filled(
      [],
      'declarations in one write are answered in their order',
      together(
        send('queue.declare', { queue: QUEUE, passive: true }),
        send('exchange.declare', { exchange: 'vcp', passive: true }),
        send('queue.declare', { queue: FILLED, passive: true }),
        send('basic.qos', { prefetchCount: 1 }),
      ),
      until('basic.qos-ok'),
    ),
  ],
};

/** In these transcripts RabbitMQ, too, permits its user to declare an existing queue again [C-6.2]. */
export const equivalence: Group = {
  name: 'equivalence',
  atOnce: 4,
  rights: { ...PARTNER, configure: '.*' },
  transcripts: [
    declared('as it is', {}),
    declared('as it is, with nowait', { nowait: true }),
    declared('not durable', { durable: false }),
    declared('auto-delete', { autoDelete: true }),
    declared('exclusive', { exclusive: true }),
    declared('not durable, exclusive and auto-delete', { durable: false, exclusive: true, autoDelete: true }),
    declared('not durable and with an argument', { durable: false, arguments: { 'x-message-ttl': 60_000 } }),
    ...Object.entries({
      'x-message-ttl': 60_000,
      'x-expires': 60_000,
      'x-max-length': 5,
      'x-max-length-bytes': 300,
      'x-max-priority': 5,
      'x-overflow': 'reject-publish',
      'x-queue-mode': 'lazy',
      'x-single-active-consumer': true,
      'x-dead-letter-exchange': 'vcp',
      'x-dead-letter-routing-key': 'a',
      'x-queue-type': 'classic',
      'x-unknown': 'a',
    }).map(([name, value]) => declared(`with ${name}`, { arguments: { [name]: value } })),
    declared('as a quorum queue', { arguments: { 'x-queue-type': 'quorum' } }),
    declared('as a queue of an unknown type', { arguments: { 'x-queue-type': 'zzz' } }),
    declared('with two arguments', { arguments: { 'x-max-length': 5, 'x-message-ttl': 60_000 } }),
    declared('with a large x-message-ttl', { arguments: { 'x-message-ttl': 604_800_000 } }),
    declared('with a negative x-message-ttl', { arguments: { 'x-message-ttl': -1 } }),
    exchange('as it is', {}),
    exchange('as it is, with nowait', { nowait: true }),
    exchange('of another type', { type: 'direct' }),
    exchange('not durable', { durable: false }),
    exchange('auto-delete', { autoDelete: true }),
    exchange('internal', { internal: true }),
    exchange('of another type and not durable', { type: 'fanout', durable: false }),
    exchange('not durable, auto-delete and internal', { durable: false, autoDelete: true, internal: true }),
    exchange('with an alternate-exchange', { arguments: { 'alternate-exchange': 'amq.fanout' } }),
    exchange('with an alternate-exchange that is no text', { arguments: { 'alternate-exchange': 5 } }),
    exchange('with an argument that is not known', { arguments: { 'x-unknown': 'a' } }),
    exchange('with an alternate-exchange and not durable', {
      durable: false,
      arguments: { 'alternate-exchange': 'amq.fanout' },
    }),
  ],
};
