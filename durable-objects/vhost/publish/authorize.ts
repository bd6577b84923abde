/** What a client of a vhost is told when it may not do a thing with a queue (RabbitMQ's codes and texts; [C-6.2]). Pure. */

import { LIMIT } from '../../../protocol/limits.ts';
import { type AmqpRefusal, channelRefusal, type VhostNames } from '../../../protocol/publish-right.ts';

/** Queues that the platform reads itself: they exist, and no client reads them. */
const INBOUND_QUEUES = ['command', 'schedule', 'config'] as const;

/** Whether a name is that of a queue that the platform reads. */
export function isInbound({ slug }: VhostNames, queue: string): boolean {
  return INBOUND_QUEUES.some((name) => queue === inboundQueue(slug, name));
}

export function inboundQueue(slug: string, name: (typeof INBOUND_QUEUES)[number]): string {
  return `vcp.${slug}.${name}`;
}

/** A queue that is not there, or not the key's to know of: names with `vcp.` are the platform's. */
export function unknownQueue(names: VhostNames, queue: string): AmqpRefusal {
  if (queue.startsWith('vcp.')) return forbiddenQueue(names, queue);
  return channelRefusal(404, `NOT_FOUND - no ${inVhost(names, queue)}`);
}

export function forbiddenQueue(names: VhostNames, queue: string): AmqpRefusal {
  const where = `in vhost '${names.vhost}' refused for user '${names.slug}'`;
  return channelRefusal(403, `ACCESS_REFUSED - access to queue '${queue}' ${where}`);
}

/** A name that no queue of a partner's own may have. */
export function reservedName(names: VhostNames, queue: string): AmqpRefusal {
  if (queue.startsWith('vcp.')) return forbiddenQueue(names, queue);
  return channelRefusal(403, `ACCESS_REFUSED - queue name '${queue}' contains reserved prefix 'amq.*'`);
}

export function isReserved(queue: string): boolean {
  return queue.startsWith('vcp.') || queue.startsWith('amq.');
}

/** It is exclusive to another connection, or was declared otherwise by this one. */
export function lockedQueue(names: VhostNames, queue: string): AmqpRefusal {
  const what = `cannot obtain exclusive access to locked ${inVhost(names, queue)}`;
  const why =
    'It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.';
  return channelRefusal(405, `RESOURCE_LOCKED - ${what}. ${why}`);
}

/** `text`: what was received, and what is. */
export function inequivalent(names: VhostNames, queue: string, argument: string, text: string): AmqpRefusal {
  return channelRefusal(
    406,
    `PRECONDITION_FAILED - inequivalent arg '${argument}' for ${inVhost(names, queue)}: ${text}`,
  );
}

export function tooManyQueues(names: VhostNames, queue: string): AmqpRefusal {
  const what = `cannot declare queue '${queue}': queue limit in vhost '${names.vhost}' (${LIMIT.ownQueues}) is reached`;
  return channelRefusal(406, `PRECONDITION_FAILED - ${what}`);
}

export function tooManyBindings(names: VhostNames, queue: string): AmqpRefusal {
  const what = `${inVhost(names, queue)} has ${LIMIT.bindingsPerQueue} bindings, which is the most`;
  return channelRefusal(406, `PRECONDITION_FAILED - ${what}`);
}

export function foreignPattern(names: VhostNames, pattern: string): AmqpRefusal {
  const where = `in exchange 'vcp' in vhost '${names.vhost}' refused for user '${names.slug}'`;
  return channelRefusal(403, `ACCESS_REFUSED - access to topic '${pattern}' ${where}`);
}

/** `why`: `in use`, `not empty`. */
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

/** How RabbitMQ names a queue. */
export function inVhost({ vhost }: VhostNames, queue: string): string {
  return `queue '${queue}' in vhost '${vhost}'`;
}
