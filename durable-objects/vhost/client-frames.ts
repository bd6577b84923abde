/** What a client's frames do to the broker, publishes aside, and what each is answered. Inside the caller's transaction. */
import type { PublishFrame, VhostLinkDown, VhostLinkUp } from '../../protocol/link.ts';
import {
  type AmqpRefusal,
  authorizeDeclare,
  authorizeRead,
  consumerTagInUse,
  inExclusiveUse,
  MAX_CONSUMERS,
  tooManyConsumers,
  type VhostNames,
} from './authorize.ts';
import type { Broker, Connections } from './broker.ts';

type ClientFrame = Exclude<VhostLinkUp, PublishFrame>;
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

/** Frames that change memory alone, until the next write takes them along. */
export function isMemoryOnly(frame: ClientFrame): boolean {
  return frame.kind === 'credit' || (frame.kind === 'settle' && frame.outcome === 'ack');
}

export function applyFrame(client: Client, frame: ClientFrame, now: number): VhostLinkDown[] {
  const { connectionId, broker, connections } = client;
  switch (frame.kind) {
    case 'settle':
      broker.settle(connectionId, frame.leases, frame.outcome);
      return [];
    case 'credit': {
      const window = connections.window(connectionId);
      if (window) connections.saveWindow(connectionId, { ...window, drainedBytes: frame.drainedBytes });
      return [];
    }
    case 'qos':
      broker.setChannelLimit(connectionId, frame.channel, frame.prefetch);
      return [];
    case 'close-channel':
      broker.closeChannel(connectionId, frame.channel);
      return [];
    case 'consume':
      return [consume(client, frame)];
    case 'cancel':
      broker.removeConsumer(connectionId, frame.channel, frame.tag);
      return [{ kind: 'ok', seq: frame.seq }];
    case 'get':
      return [get(client, frame, now)];
    case 'recover':
      broker.release((owner) => owner.connectionId === connectionId && owner.channel === frame.channel);
      return [{ kind: 'ok', seq: frame.seq }];
    case 'declare':
      return [declare(client, frame)];
  }
}

/** A malformed envelope is dead-lettered with its reason, and nothing else happens [C-7.1]. */
export function deadLetter(broker: Broker, frame: PublishFrame, reason: string, now: number): VhostLinkDown {
  const { routingKey, body, encoding, properties } = frame;
  broker.deadLetter(
    { routingKey, properties: { raw: properties }, body, encoding, createdAtMs: now },
    reason,
    now,
  );
  return { kind: 'stored', seqs: [frame.seq] };
}

export function refusedFrame(seq: number, refusal: AmqpRefusal): VhostLinkDown {
  return { kind: 'refused', seq, ...refusal };
}

function consume(client: Client, frame: Consume): VhostLinkDown {
  const { connectionId, names, broker } = client;
  const { seq, channel, tag, noAck, exclusive, prefetch } = frame;
  const queue = authorizeRead(names, frame.queue);
  if (!queue.ok) return refusedFrame(seq, queue.refusal);
  if (broker.hasTag(connectionId, channel, tag)) return refusedFrame(seq, consumerTagInUse(tag));
  if (broker.consumersOf(connectionId) >= MAX_CONSUMERS) return refusedFrame(seq, tooManyConsumers());
  const isTaken = broker.hasExclusive(queue.value) || (exclusive && broker.consumerCount(queue.value) > 0);
  if (isTaken) return refusedFrame(seq, inExclusiveUse(names, queue.value));
  broker.addConsumer({ connectionId, channel, tag, queue: queue.value, noAck, exclusive, prefetch });
  return { kind: 'ok', seq };
}

function get(client: Client, frame: Get, now: number): VhostLinkDown {
  const { connectionId, names, broker } = client;
  const queue = authorizeRead(names, frame.queue);
  if (!queue.ok) return refusedFrame(frame.seq, queue.refusal);
  const owner = { connectionId, channel: frame.channel, tag: null };
  const delivery = broker.get(queue.value, owner, frame.noAck, now);
  return { kind: 'got', seq: frame.seq, messageCount: broker.queue(queue.value).readyCount, delivery };
}

function declare({ names, broker }: Client, frame: Declare): VhostLinkDown {
  const queue = authorizeDeclare(names, frame);
  if (!queue.ok) return refusedFrame(frame.seq, queue.refusal);
  const messageCount = queue.value ? broker.queue(queue.value).readyCount : 0;
  const consumerCount = queue.value ? broker.consumerCount(queue.value) : 1;
  return { kind: 'ok', seq: frame.seq, messageCount, consumerCount };
}
