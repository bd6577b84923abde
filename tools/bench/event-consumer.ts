/**
 * A consumer of one queue of alarms that notes when the alarms of each site came. While it is slow, it acknowledges
 * nothing.
 */
import type { ConsumeMessage } from 'amqplib';
import type { Partner } from '../partner.ts';

const PREFETCH = 20;

interface Waiting {
  siteId: string;
  count: number;
  resolve: () => void;
}

export class EventConsumer {
  readonly #receivedAt = new Map<string, number[]>();
  readonly #partner: Partner;
  #waiting: Waiting[] = [];
  /** Unacknowledged while it is slow. */
  #held: ConsumeMessage[] | undefined;

  private constructor(partner: Partner) {
    this.#partner = partner;
  }

  static async start(partner: Partner, queue: string): Promise<EventConsumer> {
    const consumer = new EventConsumer(partner);
    await partner.channel.prefetch(PREFETCH);
    await partner.channel.consume(queue, (message) => {
      if (message) consumer.#receive(message);
    });
    return consumer;
  }

  /** When the alarms of a site came, in their order. */
  receivedAt(siteId: string): number[] {
    const known = this.#receivedAt.get(siteId) ?? [];
    this.#receivedAt.set(siteId, known);
    return known;
  }

  /** Resolves when that many alarms of the site have come. */
  received(siteId: string, count: number): Promise<void> {
    if (this.receivedAt(siteId).length >= count) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ siteId, count, resolve }));
  }

  slowDown(): void {
    this.#held = [];
  }

  catchUp(): void {
    for (const message of this.#held ?? []) this.#partner.channel.ack(message);
    this.#held = undefined;
  }

  async close(): Promise<void> {
    await this.#partner.close();
  }

  #receive(message: ConsumeMessage): void {
    if (this.#held) this.#held.push(message);
    else this.#partner.channel.ack(message);
    const { siteId, payload } = JSON.parse(message.content.toString('utf8'));
    // There are other alarms at the begin: a plant that comes online.
    if (payload.type !== 'DEVICE_FAULT') return;
    const came = this.receivedAt(siteId);
    came.push(performance.now());
    const isDue = (waiting: Waiting) => waiting.siteId === siteId && waiting.count <= came.length;
    for (const { resolve } of this.#waiting.filter(isDue)) resolve();
    this.#waiting = this.#waiting.filter((waiting) => !isDue(waiting));
  }
}
