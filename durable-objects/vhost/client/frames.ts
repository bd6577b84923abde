/** What a client's frames do to the broker, publishes aside, and what each is answered. */
import { LIMIT } from '../../../protocol/limits.ts';
import type { PublishFrame, VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import type { AmqpRefusal, VhostNames } from '../../../protocol/publish-right.ts';
import type { Turn } from '../../object/turn.ts';
import type { Broker, Connections } from '../delivery/broker.ts';
import {
  authorizeDeclare,
  authorizeRead,
  consumerTagInUse,
  inExclusiveUse,
  tooManyConsumers,
} from '../publish/authorize.ts';

type ClientFrame = Exclude<VhostLinkUp, PublishFrame | { kind: 'open' }>;
type Consume = Extract<ClientFrame, { kind: 'consume' }>;
type Get = Extract<ClientFrame, { kind: 'get' }>;
type Declare = Extract<ClientFrame, { kind: 'declare' }>;

/** Whose frame it is, and what it works on. */
export interface Client {
  connectionId: string;
  names: VhostNames;
  broker: Broker;
  connections: Connections;
}

/** Acknowledgements and credit change memory alone, until the next turn takes them along. */
export type MemoryFrame =
  | Extract<ClientFrame, { kind: 'credit' }>
  | (Extract<ClientFrame, { kind: 'settle' }> & { outcome: 'ack' });

export function isMemoryFrame(frame: ClientFrame): frame is MemoryFrame {
  return frame.kind === 'credit' || (frame.kind === 'settle' && frame.outcome === 'ack');
}

export function applyMemoryFrame({ connectionId, broker, connections }: Client, frame: MemoryFrame): void {
  if (frame.kind === 'settle') {
    broker.acknowledge(connectionId, frame.leases);
    return;
  }
  const window = connections.window(connectionId);
  if (window) connections.saveWindow(connectionId, { ...window, drainedBytes: frame.drainedBytes });
}

export function applyFrame(turn: Turn, client: Client, frame: ClientFrame): VhostLinkDown[] {
  if (isMemoryFrame(frame)) {
    applyMemoryFrame(client, frame);
    return [];
  }
  const { connectionId, broker } = client;
  switch (frame.kind) {
    case 'settle':
      if (frame.outcome === 'requeue') broker.requeue(turn, connectionId, frame.leases);
      else broker.discard(turn, connectionId, frame.leases);
      return [];
    case 'qos':
      broker.consumers.setChannelLimit(turn, connectionId, frame.channel, frame.prefetch);
      return [];
    case 'close-channel':
      broker.closeChannel(turn, connectionId, frame.channel);
      return [];
    case 'consume':
      return [consume(turn, client, frame)];
    case 'cancel':
      broker.consumers.remove(turn, connectionId, frame.channel, frame.tag);
      return [{ kind: 'ok', seq: frame.seq }];
    case 'get':
      return [get(turn, client, frame)];
    case 'recover':
      broker.release(turn, (owner) => owner.connectionId === connectionId && owner.channel === frame.channel);
      return [{ kind: 'ok', seq: frame.seq }];
    case 'declare':
      return [declare(client, frame)];
  }
}

/** A malformed envelope is dead-lettered with its reason, and nothing else happens [C-7.1]. */
export function deadLetter(turn: Turn, broker: Broker, frame: PublishFrame, reason: string): VhostLinkDown {
  const { routingKey, body, encoding, properties } = frame;
  const message = { routingKey, properties: { raw: properties }, body, encoding, createdAtMs: turn.now };
  broker.deadLetter(turn, message, reason);
  return { kind: 'stored', seqs: [frame.seq] };
}

export function refusedFrame(seq: number, refusal: AmqpRefusal): VhostLinkDown {
  return { kind: 'refused', seq, ...refusal };
}

function consume(turn: Turn, client: Client, frame: Consume): VhostLinkDown {
  const { connectionId, names } = client;
  const { consumers } = client.broker;
  const { seq, channel, tag, noAck, exclusive, prefetch } = frame;
  const queue = authorizeRead(names, frame.queue);
  if (!queue.ok) return refusedFrame(seq, queue.refusal);
  if (consumers.has(connectionId, channel, tag)) return refusedFrame(seq, consumerTagInUse(tag));
  if (consumers.countOf(connectionId) >= LIMIT.consumersPerConnection)
    return refusedFrame(seq, tooManyConsumers());
  const others = consumers.ofQueue(queue.value);
  const isTaken = others.some((other) => other.exclusive) || (exclusive && others.length > 0);
  if (isTaken) return refusedFrame(seq, inExclusiveUse(names, queue.value));
  consumers.add(turn, { connectionId, channel, tag, queue: queue.value, noAck, exclusive, prefetch });
  return { kind: 'ok', seq };
}

function get(turn: Turn, client: Client, frame: Get): VhostLinkDown {
  const { connectionId, names, broker } = client;
  const queue = authorizeRead(names, frame.queue);
  if (!queue.ok) return refusedFrame(frame.seq, queue.refusal);
  const owner = { connectionId, channel: frame.channel, tag: null };
  const delivery = broker.get(turn, queue.value, owner, frame.noAck);
  return { kind: 'got', seq: frame.seq, messageCount: broker.queue(queue.value).readyCount, delivery };
}

function declare({ names, broker }: Client, frame: Declare): VhostLinkDown {
  const queue = authorizeDeclare(names, frame);
  if (!queue.ok) return refusedFrame(frame.seq, queue.refusal);
  const messageCount = queue.value ? broker.queue(queue.value).readyCount : 0;
  const consumerCount = queue.value ? broker.consumers.ofQueue(queue.value).length : 1;
  return { kind: 'ok', seq: frame.seq, messageCount, consumerCount };
}
