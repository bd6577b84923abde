/**
 * Queue methods of a client: which queues it may read, and how it declares, binds and deletes partner queues
 * [C-6.6]. Platform queues always exist; a client may declare them with equal properties and purge the
 * dead-letter queue, but not change them otherwise [C-6.2].
 */
import type { VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import type { AmqpRefusal, VhostNames } from '../../../protocol/publish-right.ts';
import { ok, type Result, refuse } from '../../../protocol/result.ts';
import { queueByFullName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import type { Broker } from '../delivery/broker.ts';
import type { Connections } from '../delivery/receiver.ts';
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
import { firstUnequal, limitsOfPartnerQueue } from '../queue/arguments.ts';
import type { Definition, PartnerQueue } from '../queue/partner-queues.ts';
import type { Queue, QueueKey } from '../queue/queue.ts';
import { isOwnPattern } from '../queue/topic.ts';

/** The connection that sent a frame, and the broker that the frame changes. */
export interface Client {
  connectionId: string;
  names: VhostNames;
  broker: Broker;
  connections: Connections;
}

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
  const found = broker.queues.partner.find(name);
  if (!found) return refuse(unknownQueue(names, name));
  return isLocked(found, connectionId) ? refuse(lockedQueue(names, name)) : ok(found.queue.key);
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
  const found = broker.queues.partner.find(name);
  if (!found) return passive ? refuse(unknownQueue(names, name)) : create(turn, client, frame);
  if (isLocked(found, client.connectionId)) return refuse(lockedQueue(names, name));
  const difference = passive ? undefined : differenceOf(client, name, found, frame);
  if (difference) return refuse(difference);
  found.queue.dropAged(turn);
  return ok(countsOf(client, found.queue));
}

/** Creates a partner queue. The server chooses a name if the client sends an empty one. */
function create(turn: Turn, client: Client, frame: Frame<'declare'>): Answer {
  const { names, broker, connectionId } = client;
  const { partner } = broker.queues;
  const name = frame.queue || `amq.gen-${serverName()}`;
  if (frame.queue !== '' && isReserved(name)) return refuse(reservedName(names, name));
  const { durable, autoDelete, arguments: typed } = frame;
  const limits = limitsOfPartnerQueue(inVhost(names, name), typed);
  if (!limits.ok) return limits;
  if (partner.isFull) return refuse(tooManyQueues(names, name));
  const ownerId = frame.exclusive ? connectionId : null;
  partner.declare(turn, { name, durable, autoDelete, ownerId, arguments: typed });
  return ok({ queue: name, messageCount: 0, consumerCount: 0 });
}

/** Binds or unbinds a partner queue [C-6.6]. The bridge has already checked that the exchange is `vcp`. */
export function bind(turn: Turn, client: Client, frame: Frame<'bind' | 'unbind'>): Answer {
  const { names, broker } = client;
  if (frame.queue.startsWith('vcp.')) return refuse(forbiddenQueue(names, frame.queue));
  if (!isOwnPattern(names.slug, frame.pattern)) return refuse(foreignPattern(names, frame.pattern));
  const found = changeable(client, frame.queue);
  // Unbinding an unknown queue succeeds, as in RabbitMQ.
  if (!found.ok) return frame.kind === 'unbind' && found.refusal.code === 404 ? ok({}) : found;
  if (frame.kind === 'unbind') {
    broker.queues.partner.unbind(turn, found.value, frame.pattern);
    return ok({});
  }
  return broker.queues.partner.bind(turn, found.value, frame.pattern)
    ? ok({})
    : refuse(tooManyBindings(names, frame.queue));
}

/** Purges a partner queue or the key's dead-letter queue. */
export function purge(client: Client, { queue: name }: Frame<'purge'>): Answer {
  const { names, broker } = client;
  if (queueByFullName(names.slug, name) === 'dead-letter')
    return ok({ messageCount: broker.queues.ours('dead-letter').purge() });
  const found = changeable(client, name);
  return found.ok ? ok({ messageCount: found.value.queue.purge() }) : found;
}

/** Deletes a partner queue; succeeds if it does not exist, but not for names that begin with `vcp.`. */
export function deleteQueue(turn: Turn, client: Client, frame: Frame<'delete'>): Answer {
  const { names, broker } = client;
  const { queue: name, ifUnused, ifEmpty } = frame;
  if (!broker.queues.partner.find(name) && !name.startsWith('vcp.')) return ok({ messageCount: 0 });
  const found = changeable(client, name);
  if (!found.ok) return found;
  const { messageCount, consumerCount } = countsOf(client, found.value.queue);
  if (ifUnused && consumerCount > 0) return refuse(notDeleted(names, name, 'in use'));
  if (ifEmpty && messageCount > 0) return refuse(notDeleted(names, name, 'not empty'));
  broker.deletePartnerQueue(turn, found.value);
  return ok({ messageCount });
}

/** Finds a partner queue that the client may change. */
function changeable(
  { names, broker, connectionId }: Client,
  name: string,
): Result<PartnerQueue, AmqpRefusal> {
  const found = broker.queues.partner.find(name);
  if (!found) return refuse(unknownQueue(names, name));
  return isLocked(found, connectionId) ? refuse(lockedQueue(names, name)) : ok(found);
}

function isLocked({ ownerId }: PartnerQueue, connectionId: string): boolean {
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
  const unequal = firstUnequal(current.arguments, frame.arguments);
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
