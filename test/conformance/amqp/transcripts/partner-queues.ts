/** Partner queues: their declaration arguments, and which connections may use them [C-6.6]. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import type { Rights } from '../broker.ts';
import {
  beside,
  type Group,
  getNone,
  leave,
  QUEUE,
  request,
  send,
  type Transcript,
  transcript,
  until,
} from '../transcript.ts';

/** Permits partner queues under any name except those of the event queues, and no exchanges. */
export const OWNER: Rights = {
  configure: '^(?!vcp$|vcp\\.|amq\\.)|^amq\\.gen-',
  write: '^vcp$|^(?!vcp\\.|amq\\.)|^amq\\.gen-',
  read: '^vcp$|^vcp\\.$U\\.(event\\.|dead-letter$)|^(?!vcp\\.|amq\\.)|^amq\\.gen-',
};

const declare = (fields: Fields = {}) => send('queue.declare', { queue: '$own', ...fields });
export const declared = (fields: Fields = {}) => request('queue.declare', { queue: '$own', ...fields });
const consumed = request('basic.consume', { queue: '$own', consumerTag: 'ct' });
const cancelled = request('basic.cancel', { consumerTag: 'ct' });
const deleted = request('queue.delete', { queue: '$own' });
const passive = { passive: true };

const ARGUMENTS: Record<string, unknown[]> = {
  'x-message-ttl': [60_000, 0, -1, '60000', 1.5, true, 2 ** 40],
  'x-expires': [60_000, 0, -1, '60000'],
  'x-max-length': [5, 0, -1, '5'],
  'x-max-length-bytes': [1_000, -1],
  'x-max-priority': [5, 256, -1, '5'],
  'x-overflow': ['drop-head', 'reject-publish', 'zzz', 5],
  'x-queue-mode': ['lazy', 'zzz'],
  'x-queue-type': ['classic', 'zzz'],
  'x-single-active-consumer': [true, 'yes'],
  'x-dead-letter-exchange': ['vcp', '', 5],
  'x-dead-letter-routing-key': ['a'],
  'x-unknown': ['a'],
};

const WITH_ARGUMENTS: Transcript[] = Object.entries(ARGUMENTS).flatMap(([name, values]) =>
  values.map((value) =>
    transcript(
      `a partner queue with ${name} ${JSON.stringify(value)}`,
      declare({ arguments: { [name]: value } }),
    ),
  ),
);

const NAMES: Transcript[] = [
  transcript('a partner queue', declared()),
  transcript('a partner queue without a name', declared({ queue: '' })),
  transcript('the queue without a name is the one declared last', declared({ queue: '' }), getNone('')),
  transcript('a partner queue with a reserved name', declare({ queue: 'amq.foo' })),
  transcript('a partner queue with a name made up like the server’s', declare({ queue: 'amq.gen-mine' })),
  transcript('a partner queue whose name begins with vcp.', declare({ queue: 'vcp.mine' })),
  transcript('a partner queue whose name begins with vcp and no dot', declared({ queue: 'vcpmine-$own' })),
  transcript('a partner queue with a line break in its name', declared({ queue: '$own\n' })),
  transcript('a partner queue with a name that is no text', declare({ queue: '$own\u0001' })),
];

const withTtl = (ttl: unknown) => ({ arguments: { 'x-message-ttl': ttl } });
const declaredAgain = (how: string, first: Fields, second: Fields) =>
  transcript(`a partner queue that is declared again ${how}`, declared(first), declare(second));

const FLAGS: Transcript[] = [
  transcript('a partner queue that is durable', declared({ durable: true })),
  transcript('a partner queue that is declared twice', declared(), declared()),
  declaredAgain('as durable', {}, { durable: true }),
  declaredAgain('as auto-delete', {}, { autoDelete: true }),
  declaredAgain('as exclusive', {}, { exclusive: true }),
  transcript('an exclusive queue that is declared again as shared', declared({ exclusive: true }), declare()),
  declaredAgain('with an argument', {}, withTtl(60_000)),
  declaredAgain('without its argument', withTtl(60_000), {}),
  declaredAgain('with another value', withTtl(60_000), withTtl(70_000)),
  declaredAgain(
    'with the same value of another type',
    withTtl(60_000),
    withTtl({ '!': 'long', value: 60_000 }),
  ),
  transcript(
    'a partner queue that is declared again with an unknown argument',
    declared(),
    declared({ arguments: { 'x-unknown': 'a' } }),
  ),
  transcript('a partner queue that is exclusive and durable', declared({ exclusive: true, durable: true })),
];

const EXCLUSIVE: Transcript[] = (
  [
    ['declared', 'queue.declare', { exclusive: true }],
    ['declared as shared', 'queue.declare', {}],
    ['declared passively', 'queue.declare', passive],
    ['consumed', 'basic.consume', { consumerTag: 'ct' }],
    ['asked for a message', 'basic.get', {}],
    ['purged', 'queue.purge', {}],
    ['deleted', 'queue.delete', {}],
    ['bound', 'queue.bind', { exchange: 'vcp', routingKey: '$U.event.alarm' }],
    ['unbound', 'queue.unbind', { exchange: 'vcp', routingKey: '$U.event.alarm' }],
  ] as const
).map(([word, method, fields]) =>
  transcript(
    `an exclusive queue of another connection is ${word}`,
    beside(declared({ exclusive: true })),
    send(method, { queue: '$own', ...fields }),
  ),
);

const ENDS: Transcript[] = [
  transcript('a partner queue is deleted', declared(), deleted),
  transcript('a queue that is not there is deleted', deleted),
  transcript('a queue of no name is deleted', send('queue.delete', { queue: '' })),
  transcript('a queue is deleted that was declared last', declared(), request('queue.delete', { queue: '' })),
  transcript(
    'a partner queue is deleted with nowait',
    declared(),
    send('queue.delete', { queue: '$own', nowait: true }),
    declare(passive),
  ),
  transcript(
    'a queue with a consumer is deleted if it is unused',
    declared(),
    consumed,
    send('queue.delete', { queue: '$own', ifUnused: true }),
  ),
  transcript('a queue is deleted under its consumer', declared(), consumed, deleted, until('basic.cancel')),
  {
    ...transcript(
      'a queue is deleted under a consumer that does not know basic.cancel',
      declared(),
      consumed,
      deleted,
      cancelled,
    ),
    hello: { capabilities: {} },
  },
  transcript('a partner queue is purged', declared(), request('queue.purge', { queue: '$own' })),
  transcript('a queue that is not there is purged', send('queue.purge', { queue: '$own' })),
  transcript(
    'a partner queue is purged with nowait',
    declared(),
    send('queue.purge', { queue: '$own', nowait: true }),
  ),
  transcript(
    'an auto-delete queue is deleted with its last consumer',
    declared({ autoDelete: true }),
    consumed,
    cancelled,
    declare(passive),
  ),
  transcript(
    'an auto-delete queue is not deleted while it has had no consumer',
    declared({ autoDelete: true }),
    declared(passive),
  ),
  transcript(
    'an exclusive queue is deleted with its connection',
    beside(declared({ exclusive: true }), leave),
    declare(passive),
  ),
  transcript(
    'a queue that is not exclusive is not deleted with its connection',
    beside(declared(), leave),
    declared(passive),
    deleted,
  ),
  transcript('an event queue is deleted by its partner', send('queue.delete', { queue: QUEUE })),
];

export const partnerQueues: Group = {
  name: 'partner queues',
  rights: OWNER,
  transcripts: [...NAMES, ...FLAGS, ...WITH_ARGUMENTS, ...EXCLUSIVE, ...ENDS],
};
