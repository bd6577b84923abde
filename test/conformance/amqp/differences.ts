/**
 * Intended differences between our answers and RabbitMQ's. A difference that no longer exists fails its test.
 */

/**
 * Headers that we add to a message in the dead-letter queue. In the transcripts that queue represents any
 * queue [C-7.1].
 */
export const DEAD_LETTER_HEADERS = [
  'x-death',
  'x-death-reason',
  'x-death-routing-key',
  'x-first-death-exchange',
  'x-first-death-queue',
  'x-first-death-reason',
];

export interface Difference {
  /** Our answer. */
  ours: string[];
  /** The reason for the difference, with its clause. */
  why: string;
}

const START = 'connection.start 0-9 PLAIN AMQPLAIN en_US';
const TUNE = 'connection.tune 64 131072 60';
const HEADER = '"AMQP\\u0000\\u0000\\t\\u0001"';

function closes(text: string): string[] {
  return [`connection.close ${text}`, 'ended'];
}

function refuses(text: string): string[] {
  return [`channel.close ${text}`, 'open'];
}

function noAccess(queue: string, method: string): string[] {
  return refuses(
    `403 ACCESS_REFUSED - access to queue '${queue}' in vhost '$V' refused for user '$U' [${method}]`,
  );
}

function noTransactions(method: string): string {
  return `connection.close 540 NOT_IMPLEMENTED - transactions are not supported, use publisher confirms [${method}]`;
}

const VHOSTS =
  'A vhost belongs to one key, and the answer does not reveal whether another vhost exists [C-6.1].';
const OF_SLUG = 'a routing key begins with the user name and a dot';
const UNKNOWN_KEY = 'no command has this routing key';
const NO_TX = 'Transactions are refused: publisher confirms report recorded publishes [C-6.3].';
const FOREIGN =
  'Names of other organizations, and reserved names, get the same answer as unknown names [C-6.2].';
const BODIES = 'The limit on bodies has its own reply code, and applies at the content header [C-6.3].';

/** Queue features and checks that RabbitMQ has and we do not. */
const NOT_OFFERED = {
  'x-expires': ['60000', '0', '-1', '"60000"'],
  'x-max-length-bytes': ['1000', '-1'],
  'x-max-priority': ['5', '256', '-1', '"5"'],
  'x-overflow': ['"reject-publish"', '"zzz"', '5'],
  'x-queue-mode': ['"zzz"'],
  'x-queue-type': ['"zzz"'],
  'x-single-active-consumer': ['true', '"yes"'],
  'x-dead-letter-exchange': ['"vcp"', '""', '5'],
  'x-dead-letter-routing-key': ['"a"'],
};

function notOffered(name: string): Difference {
  const what = `invalid arg '${name}' for queue '$own' in vhost '$V': not supported`;
  return {
    ours: refuses(`406 PRECONDITION_FAILED - ${what} [50/10]`),
    why: 'A queue supports a ttl and a length; other arguments are refused instead of silently ignored [C-6.6].',
  };
}

/** Publishes that are not permitted: our text also says whether the routing key or the scope is wrong. */
const REFUSED_PUBLISHES: Record<string, [routingKey: string, why: string]> = {
  'a publish under the key of another organization': ['beta.command.mode', OF_SLUG],
  'a publish under the key of a longer slug': ['$U2.command.mode', OF_SLUG],
  'a publish of an event': ['$U.event.alarm', UNKNOWN_KEY],
  'a publish under an unknown key': ['$U.command.nothing', UNKNOWN_KEY],
  'a publish under an empty key': ['', OF_SLUG],
  'a publish under a wildcard': ['$U.command.*', UNKNOWN_KEY],
  'a mandatory publish that is not permitted': ['beta.command.mode', OF_SLUG],
  'a publish that is not permitted, without confirms': ['beta.command.mode', OF_SLUG],
};

function refusedPublish(title: string, routingKey: string, why: string): Difference {
  const what = `access to topic '${routingKey}' in exchange 'vcp' in vhost '$V' refused for user '$U': ${why}`;
  return {
    ours: [
      ...(title.endsWith('without confirms') ? [] : ['confirm.select-ok']),
      ...refuses(`403 ACCESS_REFUSED - ${what} [60/40]`),
    ],
    why: 'The text says whether the routing key or the scope of the key is wrong [C-6.2].',
  };
}

/** Keyed by the title of the transcript. */
export const DIFFERENCES: Readonly<Record<string, Difference>> = {
  ...Object.fromEntries(
    Object.entries(NOT_OFFERED).flatMap(([name, values]) =>
      values.map((value) => [`a partner queue with ${name} ${value}`, notOffered(name)]),
    ),
  ),
  ...Object.fromEntries(
    Object.entries(REFUSED_PUBLISHES).map(([title, [routingKey, why]]) => [
      title,
      refusedPublish(title, routingKey, why),
    ]),
  ),
  'an exclusive queue of another connection is unbound': {
    ours: [
      ...refuses(
        "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '$own' in vhost '$V'. It could be originally declared on another connection or the exclusive property value does not match that of the origin... [50/50]",
      ),
      'beside: queue.declare-ok $own 0 0',
      'beside: open',
    ],
    why: 'An exclusive queue belongs to its connection, with its bindings [C-6.6].',
  },
  'the properties that the server sends in connection.start': {
    ours: [
      START,
      'product Sitewire',
      'able authentication_failure_close',
      'able basic.nack',
      'able connection.blocked',
      'able consumer_cancel_notify',
      'able consumer_priorities',
      'able per_consumer_qos',
      'able publisher_confirms',
      TUNE,
      'connection.open-ok',
      'open',
    ],
    why: 'Sitewire is another product, without exchange bindings and direct reply-to [C-6.2].',
  },
  'the header of AMQP 0-8': {
    ours: [HEADER, 'ended', '(no connection.start)'],
    why: 'Only AMQP 0-9-1 is supported, no earlier version [C-6.3].',
  },
  'a vhost that is not there': {
    ours: [START, TUNE, ...closes("530 NOT_ALLOWED - access to vhost 'nope' refused for user '$U' [10/40]")],
    why: VHOSTS,
  },
  'an empty vhost name': {
    ours: [START, TUNE, ...closes("530 NOT_ALLOWED - access to vhost '' refused for user '$U' [10/40]")],
    why: VHOSTS,
  },
  'connection.close in the handshake': {
    ours: [START, TUNE, 'connection.close-ok', 'closed'],
    why: 'A client that closes early gets close-ok, as the protocol says; RabbitMQ does not answer [C-6.3].',
  },
  'connection.update-secret with another password': {
    ours: closes('530 NOT_ALLOWED - New secret was refused by one of the backends [10/70]'),
    why: 'A key keeps one secret for its lifetime: its connections accept no other [C-5.6].',
  },
  'tx.select': { ours: [noTransactions('90/10'), 'ended'], why: NO_TX },
  'tx.commit': { ours: [noTransactions('90/20'), 'ended'], why: NO_TX },
  'tx.select on a channel with confirms': {
    ours: [noTransactions('90/10'), 'confirm.select-ok', 'ended'],
    why: NO_TX,
  },
  'a content header without its properties, and its body': {
    ours: closes('502 SYNTAX_ERROR - content header does not decode [60/40]'),
    why: 'The answer names the error, where RabbitMQ fails with 541 [C-6.3].',
  },
  'a content header without its properties': {
    ours: closes('502 SYNTAX_ERROR - content header does not decode [60/40]'),
    why: 'The message is refused at the content header, where RabbitMQ fails after the body [C-6.3].',
  },
  'properties that end early': {
    ours: ['open'],
    why: 'Properties without a meaning to us are passed on unread; RabbitMQ fails with 541 [C-6.3].',
  },
  'a table with a type that does not exist': {
    ours: closes(
      '501 FRAME_ERROR - cannot decode <<0,0,17,118,99,112,46,120,46,101,118,101,110,116,46,97,108,97,114,109,1,0,0,0,7,1,120,90,0,0,0,0>> [50/10]',
    ),
    why: 'The answer names the error, where RabbitMQ fails without an answer [C-6.3].',
  },
  'a table a thousand deep': {
    ours: closes('502 SYNTAX_ERROR - field table deeper than 32 [50/10]'),
    why: 'The nesting of tables is limited [C-6.3].',
  },
  'a body that is a byte too large': {
    ours: [
      'confirm.select-ok',
      ...refuses(
        '311 CONTENT_TOO_LARGE - message size 262145 is larger than configured max size 262144 [60/40]',
      ),
    ],
    why: BODIES,
  },
  'a body that announces a terabyte': {
    ours: [
      'confirm.select-ok',
      ...refuses(
        '311 CONTENT_TOO_LARGE - message size 1099511627776 is larger than configured max size 262144 [60/40]',
      ),
    ],
    why: BODIES,
  },
  'a header CC that is no list': {
    ours: ['confirm.select-ok', 'basic.ack 1', 'open'],
    why: 'A command has one routing key: CC and BCC are ignored [C-6.2].',
  },
  'publishes before a refused one are confirmed, publishes after it are ignored': {
    ours: [
      'confirm.select-ok',
      'basic.ack 1',
      'basic.ack 2',
      "channel.close 403 ACCESS_REFUSED - access to exchange 'amq.topic' in vhost '$V' refused for user '$U' [60/40]",
      'open',
    ],
    why: 'Earlier publishes are confirmed first; RabbitMQ may close first and confirm nothing [C-6.4].',
  },
  'a passive declaration of an event queue that is not there': {
    ours: noAccess('vcp.$U.nothing', '50/10'),
    why: FOREIGN,
  },
  'a passive declaration of a queue of another organization': {
    ours: noAccess('vcp.beta.event.alarm', '50/10'),
    why: FOREIGN,
  },
  'a passive declaration of a queue that the platform reads': {
    ours: ['queue.declare-ok vcp.$U.command 0 1', 'open'],
    why: 'Only the platform consumes this queue [C-6.1].',
  },
  'an event queue is purged': {
    ours: noAccess('vcp.$U.event.alarm', '50/30'),
    why: 'A partner may only read and acknowledge [C-6.2].',
  },
  'a passive declaration of an exchange that every vhost of RabbitMQ has': {
    ours: refuses("404 NOT_FOUND - no exchange 'amq.topic' in vhost '$V' [40/10]"),
    why: 'There is one exchange, vcp [C-6.1].',
  },
};
