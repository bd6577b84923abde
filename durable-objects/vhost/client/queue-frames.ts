/**
 * Queues as a client names them: which it may read, and the declarations, bindings and ends of its own [C-6.6]. Ours are
 * there, may be declared again as they are, and change for nobody [C-6.2].
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

/** How all of ours are declared. */
const OURS = { durable: true, autoDelete: false, ownerId: null, arguments: [] } as const;

/** The queue to read from: ours, or its own unless another connection has it for itself. */
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

/** A declaration finds the queue that there is, passive or equal to it, or makes one of the partner's own. */
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

/** An empty name lets the server choose one. */
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

/** [C-6.6] To our exchange: the bridge has looked at that. */
export function bind(turn: Turn, client: Client, frame: Frame<'bind' | 'unbind'>): Answer {
  const { names, broker } = client;
  if (frame.queue.startsWith('vcp.')) return refuse(forbiddenQueue(names, frame.queue));
  if (!isOwnPattern(names.slug, frame.pattern)) return refuse(foreignPattern(names, frame.pattern));
  const own = changeable(client, frame.queue);
  // What is not bound is unbound, as in RabbitMQ.
  if (!own.ok) return frame.kind === 'unbind' && own.refusal.code === 404 ? ok({}) : own;
  if (frame.kind === 'unbind') {
    broker.queues.own.unbind(turn, own.value, frame.pattern);
    return ok({});
  }
  return broker.queues.own.bind(turn, own.value, frame.pattern)
    ? ok({})
    : refuse(tooManyBindings(names, frame.queue));
}

/** Its own, and its dead letters. */
export function purge(turn: Turn, client: Client, { queue: name }: Frame<'purge'>): Answer {
  const { names, broker } = client;
  if (queueByFullName(names.slug, name) === 'dead-letter')
    return ok({ messageCount: broker.queues.ours('dead-letter').purge(turn) });
  const own = changeable(client, name);
  return own.ok ? ok({ messageCount: own.value.queue.purge(turn) }) : own;
}

/** One that is not there is deleted already. */
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

/** A queue of its own that it may change. */
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

/** In RabbitMQ's order: whose it is, its flags, its arguments. */
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

/** 22 characters, as RabbitMQ's. */
function serverName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
