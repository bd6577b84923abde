/** The clients of `npm run bench -- objects` on the product's side: links to its objects, without a bridge. */
import { createHmac } from 'node:crypto';
import type { Link } from '../../bridge/link.ts';
import { dial } from '../../bridge/link-dial.ts';
import { type VhostLinkDown, type VhostLinkUp, vhostLinkDown } from '../../protocol/link/vhost.ts';
import { ackSigningString } from '../../protocol/signing.ts';
import { signedPublish } from '../partner.ts';
import type { SeededPlant } from '../seed.ts';
import type { BenchStack } from './bench-stack.ts';
import { credentialOf, type DeviceLink } from './device-links.ts';

const COMMANDS = [
  { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } },
] as const;

/** A device that acknowledges each command with COMPLETED at once. */
export class CommandedDevice {
  readonly id: string;
  readonly #link: DeviceLink;
  #isOver = false;
  #left = 0;
  #resolve: (() => void) | undefined;

  constructor(link: DeviceLink, { id, hmacSecret }: SeededPlant['gateway']) {
    this.id = id;
    this.#link = link;
    link.send({ kind: 'subscribed', commands: true });
    link.attach({
      frames: (frames) => {
        for (const frame of frames) {
          if (frame.kind === 'stored') this.#stored(frame.seqs.length);
          if (frame.kind === 'refused') throw new Error(`refused: ${frame.reason}`);
          if (frame.kind !== 'command') continue;
          const { cmdId } = JSON.parse(frame.payload) as { cmdId: string };
          const ts = Date.now();
          const text = ackSigningString(id, cmdId, ts, 'COMPLETED');
          const sig = createHmac('sha256', hmacSecret).update(text).digest('hex');
          const seq = link.nextSeq();
          const payload = JSON.stringify({ cmdId, status: 'COMPLETED', ts, sig });
          // As the bridge does: urgent, and what one read of the socket brings leaves in one message.
          link.send({ kind: 'publish', seq, topic: 'ack', payload }, seq, true);
        }
      },
      closed: () => this.#closed(),
    });
  }

  /** Resolves when so many acknowledgements are stored. */
  stored(count: number): Promise<void> {
    this.#left = count;
    if (count === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  close(): void {
    this.#isOver = true;
    this.#link.close();
  }

  #closed(): void {
    if (!this.#isOver) throw new Error('a link of the benchmark closed');
  }

  #stored(count: number): void {
    this.#left -= count;
    if (this.#left <= 0) this.#resolve?.();
  }
}

/** A partner's link that publishes commands and settles all events at once. */
export class EventClient {
  readonly #link: Link<VhostLinkUp, VhostLinkDown>;
  readonly #signingKey: string;
  #drainedBytes = 0;
  #isOver = false;
  #left = 0;
  #resolve: (() => void) | undefined;

  private constructor(link: Link<VhostLinkUp, VhostLinkDown>, signingKey: string) {
    this.#link = link;
    this.#signingKey = signingKey;
  }

  static async open(stack: BenchStack, boot: string): Promise<EventClient> {
    const { slug, key, vhost, signingKey } = stack.partnerOptions();
    const dialed = await dial<VhostLinkUp, VhostLinkDown>(
      { url: stack.edge.url, secret: stack.bridgeSecret, bridge: 'bench-link', boot },
      'amqp',
      credentialOf(slug, key),
      vhostLinkDown,
    );
    if (dialed.outcome !== 'accepted')
      throw new Error(`the link was not accepted: ${JSON.stringify(dialed)}`);
    const { link } = dialed;
    const client = new EventClient(link, signingKey);
    link.attach({
      frames: (frames) => client.#receive(frames),
      closed: () => client.#closed(),
    });
    link.send({ kind: 'open', vhost });
    for (const queue of ['event.status', 'event.execution']) {
      const seq = link.nextSeq();
      const consumer = { noAck: false, exclusive: false, prefetch: 0, priority: 0 };
      link.send(
        { kind: 'consume', seq, channel: 1, tag: queue, queue: `vcp.${slug}.${queue}`, ...consumer },
        seq,
      );
    }
    link.flush();
    return client;
  }

  publish(siteId: string): void {
    const { routingKey, body } = signedPublish('acme', this.#signingKey, 'device', siteId, {
      commands: COMMANDS,
    });
    const seq = this.#link.nextSeq();
    const frame = { exchange: 'vcp', routingKey, properties: '', body, encoding: 'utf8' } as const;
    this.#link.send({ kind: 'publish', seq, ...frame }, seq);
  }

  /** Resolves when so many commands have completed. */
  ended(count: number): Promise<void> {
    this.#left = count;
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  close(): void {
    this.#isOver = true;
    this.#link.close();
  }

  #closed(): void {
    if (!this.#isOver) throw new Error('a link of the benchmark closed');
  }

  #receive(frames: readonly VhostLinkDown[]): void {
    const leases: number[] = [];
    for (const frame of frames) {
      if (frame.kind === 'refused') throw new Error(`refused: ${frame.text}`);
      if (frame.kind !== 'deliver') continue;
      const { lease, bytes, body } = frame.delivery;
      leases.push(lease);
      this.#drainedBytes += bytes;
      if (body.includes('"COMPLETED"')) this.#left -= 1;
    }
    if (leases.length > 0) {
      this.#link.send({ kind: 'settle', outcome: 'ack', leases });
      this.#link.send({ kind: 'credit', drainedBytes: this.#drainedBytes });
    }
    if (this.#left <= 0) this.#resolve?.();
  }
}
