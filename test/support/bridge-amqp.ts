/** The bridge's AMQP engine between a test's clients and a test's edge. */
import { type Duplex, duplexPair } from 'node:stream';
import { AmqpConnection } from '../../bridge/amqp/connection.ts';
import type { VhostDial } from '../../bridge/amqp/handshake.ts';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { dial } from '../../bridge/link-dial.ts';
import {
  type Delivery,
  messageBytes,
  type VhostLinkDown,
  type VhostLinkUp,
  vhostLinkDown,
} from '../../protocol/link/vhost.ts';
import { BYE, type Fields } from './bridge-amqp-frames.ts';
import { AmqpPeer, type HandshakeOptions } from './bridge-amqp-peer.ts';
import type { TestEdge, VhostEdgeLink } from './bridge-edge.ts';
import { SeenEvents } from './bridge-events.ts';
import { edgeTest } from './bridge-test.ts';

export const QUEUE = 'vcp.acme.event.alarm';

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

type Ends = Pick<OpenAmqpClient, 'peer' | 'link'>;

export function dialEdge(edge: Pick<TestEdge, 'forBridge'>): VhostDial {
  return (credential) =>
    dial<VhostLinkUp, VhostLinkDown>(
      edge.forBridge,
      'amqp',
      { ...credential, address: '192.0.2.7', fingerprint: '' },
      vhostLinkDown,
    );
}

/** Opens a test's clients, and ends them with the test. */
export class AmqpClients {
  readonly #edge: TestEdge;
  readonly #peers: AmqpPeer[] = [];

  constructor(edge: TestEdge) {
    this.#edge = edge;
  }

  /** A client that has connected and sent nothing yet. */
  connect(dialVhost = dialEdge(this.#edge)): AmqpClient {
    const [stream, clientStream] = duplexPair({ allowHalfOpen: false });
    const events = new SeenEvents();
    const connection = new AmqpConnection(stream, dialVhost, events);
    const peer = new AmqpPeer(clientStream);
    this.#peers.push(peer);
    return { peer, connection, stream, events };
  }

  /** A client that has sent its start-ok. */
  async logIn(options: HandshakeOptions = {}, dialVhost?: VhostDial): Promise<AmqpClient> {
    const client = this.connect(dialVhost);
    await client.peer.logIn(options);
    return client;
  }

  /** A client whose login was accepted, and its link; tune is the next frame. */
  async accepted(): Promise<OpenAmqpClient> {
    const [client, link] = await Promise.all([this.logIn(), this.#edge.vhostLink()]);
    return { ...client, link };
  }

  /** A client whose connection and channel 1 are open, and its link. */
  async open(options: HandshakeOptions = {}): Promise<OpenAmqpClient> {
    const client = this.connect();
    const [link] = await Promise.all([this.#edge.vhostLink(), client.peer.handshake(options)]);
    await client.peer.openChannel(1);
    return { ...client, link };
  }

  /** A client with confirms on channel 1. */
  async openPublisher(): Promise<OpenAmqpClient> {
    const client = await this.open();
    await selectConfirms(client.peer);
    return client;
  }

  /** A client with the consumer 'ct' on channel 1. */
  async openConsumer(fields: Fields = {}, options: HandshakeOptions = {}): Promise<OpenAmqpClient> {
    const client = await this.open(options);
    await consume(client, fields);
    return client;
  }

  /**
   * The connection close that these bytes cause on an open connection. Throws if they also reach the object,
   * or if the bridge does not wait for close-ok.
   */
  async closeAfter(...bytes: Buffer[]): Promise<string> {
    const { peer, link } = await this.open();
    peer.write(...bytes);
    const close = await peer.takeConnectionClose();
    await link.untilClosed();
    if (link.received.length > 0) throw new Error(`the object received a ${link.received[0]?.kind}`);
    if (peer.ended) throw new Error('the socket closed without waiting for close-ok');
    return close;
  }

  stop(): void {
    for (const { stream } of this.#peers) stream.destroy();
  }
}

/** Puts channel 1 into confirm mode. */
export async function selectConfirms(peer: AmqpPeer): Promise<void> {
  await peer.request(METHOD.confirmSelect, {}, 1);
}

/**
 * `client` has an open connection with channel 1; `peer` and `link` are its two ends. `publisher` has
 * confirms on channel 1, `consumer` the consumer 'ct' on channel 1.
 */
export const amqpTest = edgeTest
  .extend('amqp', ({ edge }, { onCleanup }) => {
    const clients = new AmqpClients(edge);
    onCleanup(() => clients.stop());
    return clients;
  })
  .extend('client', ({ amqp }) => amqp.open())
  .extend('peer', ({ client }) => client.peer)
  .extend('link', ({ client }) => client.link)
  .extend('publisher', ({ amqp }) => amqp.openPublisher())
  .extend('consumer', ({ amqp }) => amqp.openConsumer());

export function deliveryOf(lease: number, changes: Partial<Delivery> = {}): Delivery {
  const message = {
    redelivered: false,
    routingKey: 'acme.event.alarm',
    properties: {},
    body: `body ${lease}`,
  };
  const delivery = { lease, ...message, encoding: 'utf8' as const, ...changes };
  return { bytes: messageBytes(delivery), ...delivery };
}

/** A frame with a delivery for a consumer on channel 1. */
export function deliver(lease: number, changes: Partial<Delivery> = {}, tag = 'ct') {
  return { kind: 'deliver', channel: 1, tag, delivery: deliveryOf(lease, changes) } as const;
}

type Request = 'consume' | 'cancel' | 'get' | 'recover' | 'declare' | 'bind' | 'unbind' | 'purge' | 'delete';

/** Takes the next request of this kind and accepts it. Returns the request without its sequence. */
export async function accept<Kind extends Request>(link: VhostEdgeLink, kind: Kind, fields = {}) {
  const { seq, ...request } = (await link.take(kind)) as Extract<VhostLinkUp, { kind: Request }>;
  link.send({ kind: 'ok', seq, ...fields });
  return request as unknown as Omit<Extract<VhostLinkUp, { kind: Kind }>, 'seq'>;
}

/** Takes the next request of this kind and rejects it. */
export async function reject(
  link: VhostEdgeLink,
  kind: Request | 'publish',
  code: number,
  text: string,
  severity: 'channel' | 'connection' = 'channel',
): Promise<void> {
  link.send({ kind: 'refused', seq: (await link.take(kind)).seq, severity, code, text });
}

/** The sequences of the next publishes that reach the object. */
export async function takeSeqs(link: VhostEdgeLink, count: number): Promise<number[]> {
  const seqs: number[] = [];
  for (let index = 0; index < count; index++) seqs.push((await link.take('publish')).seq);
  return seqs;
}

/** Consumes on a channel; the object accepts. Returns the consumer tag. */
export async function consume({ peer, link }: Ends, fields: Fields = {}, channel = 1): Promise<string> {
  peer.send(METHOD.basicConsume, { queue: QUEUE, consumerTag: 'ct', arguments: {}, ...fields }, channel);
  await accept(link, 'consume');
  return String((await peer.takeMethod(METHOD.basicConsumeOk)).consumerTag);
}

/**
 * A round trip to the object on a channel of its own. Afterwards the client has received everything that the
 * object sent before; the round trip fails if that was anything else than its own answers.
 */
export async function throughLink({ peer, link }: Ends, channel = 16): Promise<void> {
  await peer.openChannel(channel);
  peer.send(METHOD.basicGet, { queue: QUEUE }, channel);
  link.send({ kind: 'got', seq: (await link.take('get')).seq, messageCount: 0, delivery: null });
  await peer.takeMethod(METHOD.basicGetEmpty);
  await peer.request(METHOD.channelClose, BYE, channel);
}
