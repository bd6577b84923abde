/** What a client of a vhost may do with queues, and what it is told when it may not (RabbitMQ's codes and texts; [C-6.2]). Pure. */

import { LIMIT } from '../../../protocol/limits.ts';
import { type AmqpRefusal, channelRefusal, type VhostNames } from '../../../protocol/publish-right.ts';
import { ok, type Result, refuse } from '../../../protocol/result.ts';
import { fullQueueName, type QueueName, queueByFullName } from '../../../protocol/routing-keys.ts';

/** The queue to read from, or the refusal. */
export function authorizeRead(names: VhostNames, queue: string): Result<QueueName, AmqpRefusal> {
  const known = queueByFullName(names.slug, queue);
  return known ? ok(known) : refuse(unreadable(names, queue));
}

/** Queues that the platform reads itself: they exist, and no client reads them. */
const INBOUND_QUEUES = ['command', 'schedule', 'config'] as const;

export interface Declaration {
  queue: string;
  passive: boolean;
  durable: boolean;
  exclusive: boolean;
  autoDelete: boolean;
  argumentNames: readonly string[];
}

/** A declaration names a queue that exists, and is passive or equal to it. Null: one that the platform reads. */
export function authorizeDeclare(
  names: VhostNames,
  declaration: Declaration,
): Result<QueueName | null, AmqpRefusal> {
  const { queue } = declaration;
  const known = queueByFullName(names.slug, queue);
  const inbound = INBOUND_QUEUES.some((name) => queue === `vcp.${names.slug}.${name}`);
  if (!known && !inbound)
    return refuse(declaration.passive ? unreadable(names, queue) : forbidden(names, queue));
  const difference = declaration.passive ? undefined : firstDifference(declaration);
  if (!difference) return ok(known ?? null);
  return refuse(
    channelRefusal(406, `PRECONDITION_FAILED - inequivalent arg ${difference(queue, names.vhost)}`),
  );
}

function firstDifference(declaration: Declaration): ((queue: string, vhost: string) => string) | undefined {
  const expected = { durable: true, exclusive: false, auto_delete: false };
  const received = {
    durable: declaration.durable,
    exclusive: declaration.exclusive,
    auto_delete: declaration.autoDelete,
  };
  for (const name of Object.keys(expected) as (keyof typeof expected)[]) {
    if (received[name] === expected[name]) continue;
    return (queue, vhost) =>
      `'${name}' for queue '${queue}' in vhost '${vhost}': received '${received[name]}' but current is '${expected[name]}'`;
  }
  const [argument] = declaration.argumentNames;
  if (!argument) return undefined;
  return (queue, vhost) =>
    `'${argument}' for queue '${queue}' in vhost '${vhost}': received a value but current is none`;
}

function unreadable(names: VhostNames, queue: string): AmqpRefusal {
  const isOurs = queue.startsWith('vcp.') || queue.startsWith('amq.');
  if (isOurs) return forbidden(names, queue);
  return channelRefusal(404, `NOT_FOUND - no queue '${queue}' in vhost '${names.vhost}'`);
}

function forbidden(names: VhostNames, queue: string): AmqpRefusal {
  const where = `in vhost '${names.vhost}' refused for user '${names.slug}'`;
  return channelRefusal(403, `ACCESS_REFUSED - access to queue '${queue}' ${where}`);
}

export function consumerTagInUse(tag: string): AmqpRefusal {
  return { severity: 'connection', code: 530, text: `NOT_ALLOWED - attempt to reuse consumer tag '${tag}'` };
}

export function tooManyConsumers(): AmqpRefusal {
  return {
    severity: 'connection',
    code: 530,
    text: `NOT_ALLOWED - reached maximum (${LIMIT.consumersPerConnection}) of consumers per connection`,
  };
}

export function inExclusiveUse(names: VhostNames, queue: QueueName): AmqpRefusal {
  return channelRefusal(
    403,
    `ACCESS_REFUSED - queue '${fullQueueName(names.slug, queue)}' in vhost '${names.vhost}' in exclusive use`,
  );
}
