/**
 * The arguments of a queue declaration: which ones a partner queue may have, and which must be equal when a
 * queue is declared again. The error texts are RabbitMQ's, except `not supported`. Pure.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { TypedArgument } from '../../../protocol/link/vhost.ts';
import { type AmqpRefusal, channelRefusal } from '../../../protocol/publish-right.ts';
import { ok, type Result, refuse } from '../../../protocol/result.ts';
import type { QueueLimits } from './limits.ts';

/** The arguments that RabbitMQ compares; arguments with other names are ignored. */
const COMPARED = [
  'x-expires',
  'x-message-ttl',
  'x-dead-letter-exchange',
  'x-dead-letter-routing-key',
  'x-dead-letter-strategy',
  'x-max-length',
  'x-max-length-bytes',
  'x-max-in-memory-length',
  'x-max-in-memory-bytes',
  'x-max-priority',
  'x-overflow',
  'x-queue-mode',
  'x-queue-version',
  'x-single-active-consumer',
  'x-queue-type',
  'x-quorum-initial-group-size',
  'x-max-age',
  'x-stream-max-segment-size-bytes',
  'x-initial-cluster-size',
  'x-queue-leader-locator',
];
const OFFERED = ['x-message-ttl', 'x-max-length'];
/**
 * Values of arguments that are accepted because they describe how every queue behaves here, or because they
 * have no effect here.
 */
const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = {
  'x-queue-type': ['classic'],
  'x-overflow': ['drop-head'],
  'x-queue-mode': ['default', 'lazy'],
};
const INTEGER_TYPES = ['byte', 'short', 'signedint', 'long', 'unsignedbyte', 'unsignedshort', 'unsignedint'];

/** RabbitMQ's limit: ten years. */
const MAX_TTL_MS = 315_360_000_000;

/**
 * The limits of a partner queue from its arguments [C-6.6]. The byte limit is shared by all partner queues of
 * the key.
 */
export function limitsOfPartnerQueue(
  what: string,
  typed: readonly TypedArgument[],
): Result<QueueLimits, AmqpRefusal> {
  const limits: QueueLimits = {
    maxReady: LIMIT.queueMessages,
    maxOpen: LIMIT.queueMessages,
    maxBytes: LIMIT.queueBytes,
    maxAgeMs: LIMIT.queueAgeMs,
  };
  for (const argument of typed) {
    const { name, type, value } = argument;
    if (!COMPARED.includes(name) || isNeutral(argument)) continue;
    const invalid = (why: string) =>
      refuse(channelRefusal(406, `PRECONDITION_FAILED - invalid arg '${name}' for ${what}: ${why}`));
    if (!OFFERED.includes(name)) return invalid('not supported');
    if (!INTEGER_TYPES.includes(type)) return invalid(`"expected integer, got ${type}"`);
    const number = Number(value);
    if (number < 0) return invalid(`{value_negative,${value}}`);
    if (name === 'x-message-ttl' && number > MAX_TTL_MS) return invalid(`{value_too_large,${value}}`);
    if (name === 'x-message-ttl') limits.maxAgeMs = Math.min(number, limits.maxAgeMs);
    else limits.maxReady = Math.min(number, limits.maxReady);
  }
  return ok(limits);
}

/** The first argument in which a declaration differs from the queue; undefined if it is equal. */
export function firstUnequal(
  current: readonly TypedArgument[],
  received: readonly TypedArgument[],
): { name: string; text: string } | undefined {
  for (const name of COMPARED) {
    const [is, said] = [find(current, name), find(received, name)];
    if (isEqual(is, said)) continue;
    const text =
      is && said
        ? `received '${said.value}' but current is '${is.value}'`
        : `received ${describe(said)} but current is ${describe(is)}`;
    return { name, text };
  }
  return undefined;
}

function find(list: readonly TypedArgument[], name: string): TypedArgument | undefined {
  const argument = list.find((one) => one.name === name);
  // `classic` is the default and equals an absent argument.
  return argument?.name === 'x-queue-type' && argument.value === 'classic' ? undefined : argument;
}

function isNeutral({ name, value }: TypedArgument): boolean {
  return NEUTRAL[name]?.includes(value) === true;
}

function isEqual(one: TypedArgument | undefined, other: TypedArgument | undefined): boolean {
  if (!one || !other) return one === other;
  return one.value === other.value && classOf(one.type) === classOf(other.type);
}

/** Integers of different widths are comparable. */
function classOf(type: string): string {
  return INTEGER_TYPES.includes(type) ? 'integer' : type;
}

function describe(argument: TypedArgument | undefined): string {
  return argument ? `the value '${argument.value}' of type '${argument.type}'` : 'none';
}
