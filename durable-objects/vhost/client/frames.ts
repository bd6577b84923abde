/** Applies a client's frames, except publishes, to the broker, and returns the answers. */
import { LIMIT } from '../../../protocol/limits.ts';
import type { PublishFrame, VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import type { AmqpRefusal } from '../../../protocol/publish-right.ts';
import type { Turn } from '../../object/turn.ts';
import { consumerTagInUse, inboundQueue, inExclusiveUse, tooManyConsumers } from '../publish/authorize.ts';
import { bind, type Client, declare, deleteQueue, purge, readable } from './queue-frames.ts';

type ClientFrame = Exclude<VhostLinkUp, PublishFrame | { kind: 'open' }>;
type Consume = Extract<ClientFrame, { kind: 'consume' }>;
type Get = Extract<ClientFrame, { kind: 'get' }>;

/**
 * Frames that change only memory: acknowledgements, which are stored within a second, and credit, which reports
 * how many bytes were written to the client's socket.
 */
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
      if (frame.outcome === 'requeue') broker.requeue(connectionId, frame.leases);
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
      broker.cancel(turn, connectionId, frame.channel, frame.tag);
      return [{ kind: 'ok', seq: frame.seq }];
    case 'get':
      return [get(turn, client, frame)];
    case 'recover':
      broker.release((owner) => owner.readerId === connectionId && owner.channel === frame.channel);
      return [{ kind: 'ok', seq: frame.seq }];
    case 'declare':
      return [answerTo(frame, declare(turn, client, frame))];
    case 'bind':
    case 'unbind':
      return [answerTo(frame, bind(turn, client, frame))];
    case 'purge':
      return [answerTo(frame, purge(client, frame))];
    case 'delete':
      return [answerTo(frame, deleteQueue(turn, client, frame))];
  }
}

function answerTo({ seq }: { seq: number }, answer: ReturnType<typeof declare>): VhostLinkDown {
  return answer.ok ? { kind: 'ok', seq, ...answer.value } : refusedFrame(seq, answer.refusal);
}

/** Dead-letters a malformed envelope with its reason; it has no other effect [C-7.1]. */
export function deadLetter(turn: Turn, client: Client, frame: PublishFrame, reason: string): VhostLinkDown {
  const { names, broker } = client;
  const { routingKey, body, encoding, properties } = frame;
  const message = { routingKey, properties: { raw: properties }, body, encoding, createdAtMs: turn.now };
  const [, area] = routingKey.split('.');
  const queue = inboundQueue(names.slug, area === 'schedule' || area === 'config' ? area : 'command');
  broker.queues.bury(turn, message, reason, { queue, reason: 'rejected' });
  return { kind: 'stored', seqs: [frame.seq] };
}

export function refusedFrame(seq: number, refusal: AmqpRefusal): VhostLinkDown {
  return { kind: 'refused', seq, ...refusal };
}

function consume(turn: Turn, client: Client, frame: Consume): VhostLinkDown {
  const { connectionId, names } = client;
  const { consumers } = client.broker;
  const { seq, channel, tag, noAck, exclusive, prefetch, priority } = frame;
  const queue = readable(client, frame.queue);
  if (!queue.ok) return refusedFrame(seq, queue.refusal);
  if (consumers.has(connectionId, channel, tag)) return refusedFrame(seq, consumerTagInUse(tag));
  if (consumers.countOf(connectionId) >= LIMIT.consumersPerConnection)
    return refusedFrame(seq, tooManyConsumers());
  const others = consumers.ofQueue(queue.value);
  const isTaken = others.some((other) => other.exclusive) || (exclusive && others.length > 0);
  if (isTaken) return refusedFrame(seq, inExclusiveUse(names, frame.queue));
  consumers.add(turn, {
    readerId: connectionId,
    channel,
    tag,
    queue: queue.value,
    noAck,
    exclusive,
    prefetch,
    priority,
    receiver: client.broker.links,
  });
  return { kind: 'ok', seq };
}

function get(turn: Turn, client: Client, frame: Get): VhostLinkDown {
  const { connectionId, broker } = client;
  const queue = readable(client, frame.queue);
  if (!queue.ok) return refusedFrame(frame.seq, queue.refusal);
  const owner = { readerId: connectionId, channel: frame.channel, tag: null };
  const delivery = broker.get(turn, queue.value, owner, frame.noAck);
  return { kind: 'got', seq: frame.seq, messageCount: broker.queues.find(queue.value).readyCount, delivery };
}
