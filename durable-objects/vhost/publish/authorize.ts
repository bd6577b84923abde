/**
 * Refusals of queue and consumer operations of a client, with RabbitMQ's codes and, where it has the same
 * refusal, its texts [C-6.2]. Pure.
 */

import { LIMIT } from '../../../protocol/limits.ts';
import { type AmqpRefusal, channelRefusal, type VhostNames } from '../../../protocol/publish-right.ts';

/** Inbound queues: they exist, but only the platform reads them. */
const INBOUND_QUEUES = ['command', 'schedule', 'config'] as const;

/** Whether the name is that of an inbound queue. */
export function isInbound({ slug }: VhostNames, queue: string): boolean {
  return INBOUND_QUEUES.some((name) => queue === inboundQueue(slug, name));
}

export function inboundQueue(slug: string, name: (typeof INBOUND_QUEUES)[number]): string {
  return `vcp.${slug}.${name}`;
}

/**
 * The refusal for a queue that does not exist: NOT_FOUND, but ACCESS_REFUSED for names that begin with
 * `vcp.`, which are reserved for the platform.
 */
export function unknownQueue(names: VhostNames, queue: string): AmqpRefusal {
  if (queue.startsWith('vcp.')) return forbiddenQueue(names, queue);
  return channelRefusal(404, `NOT_FOUND - no ${inVhost(names, queue)}`);
}

export function forbiddenQueue(names: VhostNames, queue: string): AmqpRefusal {
  const where = `in vhost '${names.vhost}' refused for user '${names.slug}'`;
  return channelRefusal(403, `ACCESS_REFUSED - access to queue '${queue}' ${where}`);
}

/** The refusal for a name that a partner queue may not have. */
export function reservedName(names: VhostNames, queue: string): AmqpRefusal {
  if (queue.startsWith('vcp.')) return forbiddenQueue(names, queue);
  return channelRefusal(403, `ACCESS_REFUSED - queue name '${queue}' contains reserved prefix 'amq.*'`);
}

export function isReserved(queue: string): boolean {
  return queue.startsWith('vcp.') || queue.startsWith('amq.');
}

/**
 * The refusal for a queue that is exclusive to another connection, or that this connection declared with
 * another `exclusive` flag.
 */
export function lockedQueue(names: VhostNames, queue: string): AmqpRefusal {
  const what = `cannot obtain exclusive access to locked ${inVhost(names, queue)}`;
  const why =
    'It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.';
  return channelRefusal(405, `RESOURCE_LOCKED - ${what}. ${why}`);
}

/** `text`: the received and the current value. */
export function inequivalent(names: VhostNames, queue: string, argument: string, text: string): AmqpRefusal {
  return channelRefusal(
    406,
    `PRECONDITION_FAILED - inequivalent arg '${argument}' for ${inVhost(names, queue)}: ${text}`,
  );
}

export function tooManyQueues(names: VhostNames, queue: string): AmqpRefusal {
  const what = `cannot declare queue '${queue}': queue limit in vhost '${names.vhost}' (${LIMIT.partnerQueues}) is reached`;
  return channelRefusal(406, `PRECONDITION_FAILED - ${what}`);
}

export function tooManyBindings(names: VhostNames, queue: string): AmqpRefusal {
  const what = `${inVhost(names, queue)} has the maximum of ${LIMIT.bindingsPerQueue} bindings`;
  return channelRefusal(406, `PRECONDITION_FAILED - ${what}`);
}

export function foreignPattern(names: VhostNames, pattern: string): AmqpRefusal {
  const where = `in exchange 'vcp' in vhost '${names.vhost}' refused for user '${names.slug}'`;
  return channelRefusal(403, `ACCESS_REFUSED - access to topic '${pattern}' ${where}`);
}

/** `why`: `in use` or `not empty`. */
export function notDeleted(names: VhostNames, queue: string, why: string): AmqpRefusal {
  return channelRefusal(406, `PRECONDITION_FAILED - ${inVhost(names, queue)} ${why}`);
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

export function inExclusiveUse(names: VhostNames, queue: string): AmqpRefusal {
  return channelRefusal(403, `ACCESS_REFUSED - ${inVhost(names, queue)} in exclusive use`);
}

/** A queue in RabbitMQ's wording. */
export function inVhost({ vhost }: VhostNames, queue: string): string {
  return `queue '${queue}' in vhost '${vhost}'`;
}
