/**
 * Queue methods of a client: which queues it may read, and how it declares, binds and deletes partner queues
 * [C-6.6]. Platform queues always exist; a client may declare them with equal properties, but not change them
 * [C-6.2].
 */
import type { VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import type { AmqpRefusal } from '../../../protocol/publish-right.ts';
import { ok, type Result, refuse } from '../../../protocol/result.ts';
import { queueByFullName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import {
  forbiddenQueue,
  foreignPattern,
  inequivalent,
  inVhost,
  isInbound,
  isReserved,
  lockedQueue,
  notDeleted,
  reservedName,
  tooManyBindings,
  tooManyQueues,
  unknownQueue,
} from '../publish/authorize.ts';
import { firstUnequal, limitsOfOwn } from '../queue/arguments.ts';
import type { OwnQueue } from '../queue/own-queues.ts';
import type { Definition } from '../queue/own-rows.ts';
import type { Queue, QueueKey } from '../queue/queue.ts';
import { isOwnPattern } from '../queue/topic.ts';
import type { Client } from './client.ts';

type Frame<Kind extends VhostLinkUp['kind']> = Kind extends unknown
  ? Extract<VhostLinkUp, { kind: Kind }>
  : never;
type Answer = Result<Omit<Extract<VhostLinkDown, { kind: 'ok' }>, 'kind' | 'seq'>, AmqpRefusal>;

/** The properties of every platform queue. */
const OURS = { durable: true, autoDelete: false, ownerId: null, arguments: [] } as const;

/** Finds the queue to read from: a platform queue, or a partner queue that is not exclusive to another connection. */
export function readable(
  { names, broker, connectionId }: Client,
  name: string,
): Result<QueueKey, AmqpRefusal> {
  const ours = queueByFullName(names.slug, name);
  if (ours) return ok(ours);
  const own = broker.queues.own.find(name);
  if (!own) return refuse(unknownQueue(names, name));
  return isLocked(own, connectionId) ? refuse(lockedQueue(names, name)) : ok(own.queue.key);
}

/**
 * Declares a queue: returns the existing one if it is equal or the declaration is passive, or creates a
 * partner queue.
 */
export function declare(turn: Turn, client: Client, frame: Frame<'declare'>): Answer {
  const { names, broker } = client;
  const { queue: name, passive } = frame;
  const ours = queueByFullName(names.slug, name);
  if (ours || isInbound(names, name)) {
    const difference = passive ? undefined : differenceOf(client, name, OURS, frame);
    if (difference) return refuse(difference);
    return ok(ours ? countsOf(client, broker.queues.ours(ours)) : { messageCount: 0, consumerCount: 1 });
  }
  const own = broker.queues.own.find(name);
  if (!own) return passive ? refuse(unknownQueue(names, name)) : create(turn, client, frame);
  if (isLocked(own, client.connectionId)) return refuse(lockedQueue(names, name));
  const difference = passive ? undefined : differenceOf(client, name, own, frame);
  if (difference) return refuse(difference);
  own.queue.dropAged(turn);
  return ok(countsOf(client, own.queue));
}

/** Creates a partner queue. The server chooses a name if the client sends an empty one. */
function create(turn: Turn, client: Client, frame: Frame<'declare'>): Answer {
  const { names, broker, connectionId } = client;
  const { own } = broker.queues;
  const name = frame.queue || `amq.gen-${serverName()}`;
  if (frame.queue !== '' && isReserved(name)) return refuse(reservedName(names, name));
  const { durable, autoDelete, arguments: typed = [] } = frame;
  const limits = limitsOfOwn(inVhost(names, name), typed);
  if (!limits.ok) return limits;
  if (own.isFull) return refuse(tooManyQueues(names, name));
  const ownerId = frame.exclusive ? connectionId : null;
  own.declare(turn, { name, durable, autoDelete, ownerId, arguments: typed });
  return ok({ queue: name, messageCount: 0, consumerCount: 0 });
}

/** Binds or unbinds a partner queue [C-6.6]. The bridge has already checked that the exchange is `vcp`. */
export function bind(turn: Turn, client: Client, frame: Frame<'bind' | 'unbind'>): Answer {
  const { names, broker } = client;
  if (frame.queue.startsWith('vcp.')) return refuse(forbiddenQueue(names, frame.queue));
  if (!isOwnPattern(names.slug, frame.pattern)) return refuse(foreignPattern(names, frame.pattern));
  const own = changeable(client, frame.queue);
  // Unbinding an unknown queue succeeds, as in RabbitMQ.
  if (!own.ok) return frame.kind === 'unbind' && own.refusal.code === 404 ? ok({}) : own;
  if (frame.kind === 'unbind') {
    broker.queues.own.unbind(turn, own.value, frame.pattern);
    return ok({});
  }
  return broker.queues.own.bind(turn, own.value, frame.pattern)
    ? ok({})
    : refuse(tooManyBindings(names, frame.queue));
}

/** Purges a partner queue or the key's dead-letter queue. */
export function purge(turn: Turn, client: Client, { queue: name }: Frame<'purge'>): Answer {
  const { names, broker } = client;
  if (queueByFullName(names.slug, name) === 'dead-letter')
    return ok({ messageCount: broker.queues.ours('dead-letter').purge(turn) });
  const own = changeable(client, name);
  return own.ok ? ok({ messageCount: own.value.queue.purge(turn) }) : own;
}

/** Deletes a partner queue; succeeds if it does not exist. */
export function deleteQueue(turn: Turn, client: Client, frame: Frame<'delete'>): Answer {
  const { names, broker } = client;
  const { queue: name, ifUnused, ifEmpty } = frame;
  if (!broker.queues.own.find(name) && !name.startsWith('vcp.')) return ok({ messageCount: 0 });
  const own = changeable(client, name);
  if (!own.ok) return own;
  const { messageCount, consumerCount } = countsOf(client, own.value.queue);
  if (ifUnused && consumerCount > 0) return refuse(notDeleted(names, name, 'in use'));
  if (ifEmpty && messageCount > 0) return refuse(notDeleted(names, name, 'not empty'));
  broker.deleteOwn(turn, own.value);
  return ok({ messageCount });
}

/** Finds a partner queue that the client may change. */
function changeable({ names, broker, connectionId }: Client, name: string): Result<OwnQueue, AmqpRefusal> {
  const own = broker.queues.own.find(name);
  if (!own) return refuse(unknownQueue(names, name));
  return isLocked(own, connectionId) ? refuse(lockedQueue(names, name)) : ok(own);
}

function isLocked({ ownerId }: OwnQueue, connectionId: string): boolean {
  return ownerId !== null && ownerId !== connectionId;
}

function countsOf({ broker }: Client, queue: Queue): { messageCount: number; consumerCount: number } {
  return { messageCount: queue.readyCount, consumerCount: broker.consumers.ofQueue(queue.key).length };
}

/** Compares in RabbitMQ's order: exclusive owner, flags, arguments. */
function differenceOf(
  { names, connectionId }: Client,
  name: string,
  current: Omit<Definition, 'name'>,
  frame: Frame<'declare'>,
): AmqpRefusal | undefined {
  if ((frame.exclusive ? connectionId : null) !== current.ownerId) return lockedQueue(names, name);
  const flags = [
    ['durable', frame.durable, current.durable],
    ['auto_delete', frame.autoDelete, current.autoDelete],
  ] as const;
  for (const [flag, received, is] of flags) {
    if (received === is) continue;
    return inequivalent(names, name, flag, `received '${received}' but current is '${is}'`);
  }
  const unequal = firstUnequal(current.arguments, frame.arguments ?? []);
  return unequal && inequivalent(names, name, unequal.name, unequal.text);
}

/** A random name of 22 characters, as in RabbitMQ. */
function serverName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
