/** The bridge's AMQP engine with a client of a test before it and an edge of a test behind it. */
import { type Duplex, duplexPair } from 'node:stream';
import { AmqpConnection } from '../../bridge/amqp/connection.ts';
import type { ConnectionEvents, Refusal } from '../../bridge/amqp/connection-events.ts';
import type { VhostDial } from '../../bridge/amqp/handshake.ts';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { dial } from '../../bridge/link.ts';
import type { EndReason, PublishResult } from '../../bridge/reasons.ts';
import {
  type Delivery,
  type VhostLinkDown,
  type VhostLinkUp,
  vhostLinkDown,
} from '../../protocol/link/vhost.ts';
import { AmqpPeer, type HandshakeOptions } from './bridge-amqp-peer.ts';
import type { TestEdge, VhostEdgeLink } from './bridge-edge.ts';

/** What the process was told of a connection. */
export class SeenEvents implements ConnectionEvents {
  openedWith: { username: string; vhost: string } | undefined;
  /** Of those that were opened and those that were not. */
  readonly closedWhy: string[] = [];
  refusal: Refusal | undefined;
  endReason: EndReason | undefined;
  readonly results: Record<PublishResult, number> = { confirmed: 0, nacked: 0, refused: 0 };
  publishedCount = 0;
  deliveredCount = 0;

  opened(details: { username: string; vhost: string }): void {
    this.openedWith = details;
  }
  refused(refusal: Refusal): void {
    this.refusal = refusal;
    this.closedWhy.push(refusal.why);
  }
  closed(why: string, reason: EndReason): void {
    this.endReason = reason;
    this.closedWhy.push(why);
  }
  settled(result: PublishResult, count: number): void {
    this.results[result] += count;
  }
  published(count: number): void {
    this.publishedCount += count;
  }
  delivered(count: number): void {
    this.deliveredCount += count;
  }
}

export interface AmqpClient {
  peer: AmqpPeer;
  connection: AmqpConnection;
  /** The bridge's end of the client's stream. */
  stream: Duplex;
  events: SeenEvents;
}

export interface OpenAmqpClient extends AmqpClient {
  link: VhostEdgeLink;
}

export function dialEdge(edge: TestEdge): VhostDial {
  return (credential) =>
    dial<VhostLinkUp, VhostLinkDown>(
      edge.forBridge,
      'amqp',
      { ...credential, address: '192.0.2.7', fingerprint: '' },
      vhostLinkDown,
    );
}

/** A client that has connected and sent nothing yet. */
export function connectAmqp(dialVhost: VhostDial): AmqpClient {
  const [stream, clientStream] = duplexPair({ allowHalfOpen: false });
  const events = new SeenEvents();
  const connection = new AmqpConnection(stream, dialVhost, events);
  return { peer: new AmqpPeer(clientStream), connection, stream, events };
}

/** A client whose connection and channel 1 are open, and its link. */
export async function openAmqp(edge: TestEdge, options: HandshakeOptions = {}): Promise<OpenAmqpClient> {
  const client = connectAmqp(dialEdge(edge));
  const [link] = await Promise.all([edge.vhostLink(), client.peer.handshake(options)]);
  await client.peer.openChannel(1);
  return { ...client, link };
}

/** The connection close that these bytes on an open connection bring about; the object is sent nothing of them. */
export async function closeAfter(edge: TestEdge, ...bytes: Buffer[]): Promise<string> {
  const { peer, link } = await openAmqp(edge);
  peer.write(...bytes);
  const close = await peer.takeConnectionClose();
  await link.untilClosed();
  if (link.received.length > 0) throw new Error(`the object was sent a ${link.received[0]?.kind}`);
  if (peer.ended) throw new Error('the socket closed without waiting for close-ok');
  peer.stream.destroy();
  return close;
}

/** A delivery of the object's. */
export function deliveryOf(lease: number, changes: Partial<Delivery> = {}): Delivery {
  const message = {
    redelivered: false,
    routingKey: 'acme.event.alarm',
    properties: {},
    body: `body ${lease}`,
  };
  return { lease, ...message, encoding: 'utf8', ...changes };
}

/** A client with a consumer that the object has accepted. */
export async function openConsumer(
  edge: TestEdge,
  fields: Record<string, unknown> = {},
  options: HandshakeOptions = {},
): Promise<OpenAmqpClient & { tag: string }> {
  const client = await openAmqp(edge, options);
  const tag = await consume(client, fields);
  return { ...client, tag };
}

/** The sequences of the next publishes that reach the object. */
export async function takeSeqs({ link }: OpenAmqpClient, count: number): Promise<number[]> {
  const seqs: number[] = [];
  for (let index = 0; index < count; index++) seqs.push((await link.take('publish')).seq);
  return seqs;
}

/** A client whose channel 1 confirms. */
export async function openPublisher(edge: TestEdge): Promise<OpenAmqpClient> {
  const client = await openAmqp(edge);
  client.peer.send(METHOD.confirmSelect, {}, 1);
  await client.peer.takeMethod(METHOD.confirmSelectOk);
  return client;
}

/** Consumes on a channel; the object accepts. */
export async function consume(
  { peer, link }: OpenAmqpClient,
  fields: Record<string, unknown> = {},
  channel = 1,
): Promise<string> {
  const wanted = { queue: 'vcp.acme.event.alarm', consumerTag: 'ct', arguments: {}, ...fields };
  peer.send(METHOD.basicConsume, wanted, channel);
  const { seq } = await link.take('consume');
  link.send({ kind: 'ok', seq });
  return String((await peer.takeMethod(METHOD.basicConsumeOk)).consumerTag);
}

/**
 * Once to the object and back, on a channel of its own: all that the object sent before has been taken by then, and
 * the client was told nothing else in between.
 */
export async function throughLink({ peer, link }: OpenAmqpClient, channel = 16): Promise<void> {
  await peer.openChannel(channel);
  peer.send(METHOD.basicGet, { queue: 'vcp.acme.event.alarm' }, channel);
  const { seq } = await link.take('get');
  link.send({ kind: 'got', seq, messageCount: 0, delivery: null });
  await peer.takeMethod(METHOD.basicGetEmpty);
  peer.send(METHOD.channelClose, { replyCode: 200, replyText: '', classId: 0, methodId: 0 }, channel);
  await peer.takeMethod(METHOD.channelCloseOk);
}
