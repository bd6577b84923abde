/**
 * A Vhost without an object, to measure only the protocol layer: one queue in memory that implements the
 * link's interface. It answers publishes once per turn in one frame, delivers within prefetch and the credit
 * window, and processes acks.
 */
import type { VhostLink } from '../../bridge/amqp/handshake.ts';
import type { LinkHandlers } from '../../bridge/link.ts';
import {
  DELIVERY_WINDOW_BYTES,
  messageBytes,
  type PublishFrame,
  type VhostLinkDown,
  type VhostLinkUp,
} from '../../protocol/link/vhost.ts';

const MESSAGE_ID = '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11';

type Consume = Extract<VhostLinkUp, { kind: 'consume' }>;

/** The stored messages, shared by all connections. */
export class MemoryQueue {
  readonly #messages: PublishFrame[] = [];
  #head = 0;

  push(message: PublishFrame): void {
    this.#messages.push(message);
  }

  shift(): PublishFrame | undefined {
    const message = this.#messages[this.#head];
    if (message) this.#head += 1;
    if (this.#head === this.#messages.length) {
      this.#messages.length = 0;
      this.#head = 0;
    }
    return message;
  }
}

export class MemoryVhost implements VhostLink {
  readonly #queue: MemoryQueue;
  #handlers: LinkHandlers<VhostLinkDown> | undefined;
  #seq = 0;
  #answers: VhostLinkDown[] = [];
  #stored: number[] = [];
  #scheduled = false;
  #consumer: Consume | undefined;
  #lease = 0;
  readonly #leased = new Set<number>();
  #deliveredBytes = 0;
  #drainedBytes = 0;

  constructor(queue: MemoryQueue) {
    this.#queue = queue;
  }

  attach(handlers: LinkHandlers<VhostLinkDown>): void {
    this.#handlers = handlers;
  }

  nextSeq(): number {
    this.#seq += 1;
    return this.#seq;
  }

  send(frame: VhostLinkUp): void {
    switch (frame.kind) {
      case 'publish':
        this.#queue.push(frame);
        this.#stored.push(frame.seq);
        break;
      case 'settle':
        for (const lease of frame.leases) this.#leased.delete(lease);
        break;
      case 'credit':
        this.#drainedBytes = frame.drainedBytes;
        break;
      case 'consume':
        this.#consumer = frame;
        this.#answers.push({ kind: 'ok', seq: frame.seq });
        break;
      case 'cancel':
        this.#consumer = undefined;
        this.#answers.push({ kind: 'ok', seq: frame.seq });
        break;
      case 'open':
      case 'close-channel':
        return;
      default:
        throw new Error(`the queue in memory does not support "${frame.kind}"`);
    }
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#turn());
  }

  close(): void {
    this.#handlers = undefined;
  }

  #turn(): void {
    this.#scheduled = false;
    const frames = this.#answers;
    this.#answers = [];
    if (this.#stored.length > 0) frames.push({ kind: 'stored', seqs: this.#stored });
    this.#stored = [];
    this.#deliver(frames);
    if (frames.length > 0) this.#handlers?.frames(frames);
  }

  #deliver(frames: VhostLinkDown[]): void {
    const consumer = this.#consumer;
    if (!consumer) return;
    const { channel, tag, prefetch } = consumer;
    while (
      this.#leased.size < prefetch &&
      this.#deliveredBytes - this.#drainedBytes < DELIVERY_WINDOW_BYTES
    ) {
      const message = this.#queue.shift();
      if (!message) return;
      const { routingKey, body, encoding } = message;
      // The same properties as those of our events.
      const properties = {
        contentType: 'application/json',
        messageId: MESSAGE_ID,
        timestampMs: 1_800_000_000_000,
      };
      const bytes = messageBytes({ body, routingKey, properties });
      this.#deliveredBytes += bytes;
      this.#lease += 1;
      this.#leased.add(this.#lease);
      const delivery = {
        lease: this.#lease,
        redelivered: false,
        routingKey,
        properties,
        body,
        encoding,
        bytes,
      };
      frames.push({ kind: 'deliver', channel, tag, delivery });
    }
  }
}
