/** Clients that read the events of a key in three ways, and go on whatever is killed: AMQP, polling and a stream. */
import { randomUUID } from 'node:crypto';
import type { ChannelModel } from 'amqplib';
import { EXCHANGE } from '../../protocol/routing-keys.ts';
import type { PartnerOptions } from '../../tools/partner.ts';
import { openConnection } from './returning-partner.ts';

const COME_BACK_MS = 50;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Where the events are, and the key. */
export interface Source {
  url: string;
  key: string;
}

export interface EventReader {
  /** The texts of the events, in order. */
  readonly texts: string[];
  stop(): Promise<void>;
}

/** Reads `GET /vcp/events` from the beginning, again and again. */
export class Poller implements EventReader {
  readonly texts: string[] = [];
  readonly sequences: number[] = [];
  gaps = 0;
  #isStopped = false;
  readonly #run: Promise<void>;

  constructor(source: Source) {
    this.#run = this.#poll(source);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#run;
  }

  async #poll({ url, key }: Source): Promise<void> {
    for (let after = 0; !this.#isStopped; await pause(COME_BACK_MS)) {
      const path = `/api/v1/vcp/events?limit=500&after=${after}`;
      const answer = await fetch(`${url}${path}`, { headers: { 'x-api-key': key } }).catch(() => undefined);
      if (answer?.status !== 200) continue;
      const page = (await answer.json()) as {
        events: { sequence: number; event: string }[];
        next: number;
        gap?: true;
      };
      if (page.gap) this.gaps += 1;
      for (const { sequence, event } of page.events) {
        this.sequences.push(sequence);
        this.texts.push(event);
      }
      after = page.next;
    }
  }
}

/** Reads `GET /vcp/events/stream` from the beginning, and resumes after its last event when the stream ends. */
export class Streamer implements EventReader {
  readonly texts: string[] = [];
  readonly sequences: number[] = [];
  gaps = 0;
  /** Streams opened so far. */
  opened = 0;
  #isStopped = false;
  #abort = new AbortController();
  readonly #run: Promise<void>;

  constructor(source: Source) {
    this.#run = this.#stay(source);
  }

  /** Cuts the connection in the middle of whatever it does. */
  cut(): void {
    this.#abort.abort();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.cut();
    await this.#run;
  }

  async #stay(source: Source): Promise<void> {
    while (!this.#isStopped) {
      this.#abort = new AbortController();
      await this.#session(source).catch(() => {});
      await pause(COME_BACK_MS);
    }
  }

  async #session({ url, key }: Source): Promise<void> {
    const headers = { 'x-api-key': key, 'last-event-id': String(this.sequences.at(-1) ?? 0) };
    const { signal } = this.#abort;
    const answer = await fetch(`${url}/api/v1/vcp/events/stream`, { headers, signal });
    if (answer.status !== 200 || !answer.body) return;
    this.opened += 1;
    let text = '';
    for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
      text += bytes;
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) this.#take(block);
    }
  }

  #take(block: string): void {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
    if (field('event') === 'gap') this.gaps += 1;
    else if (field('data') !== undefined) {
      this.sequences.push(Number(field('id')));
      this.texts.push(field('data') ?? '');
    }
  }
}

/** Consumes a queue that gets every event of the key, and acknowledges each; an event may come twice. */
export class AmqpReader implements EventReader {
  readonly texts: string[] = [];
  readonly #queue = `all-${randomUUID()}`;
  readonly #options: PartnerOptions;
  #isStopped = false;
  #connection: ChannelModel | undefined;
  readonly #run: Promise<void>;
  readonly isReady: Promise<void>;

  constructor(options: PartnerOptions) {
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.isReady = promise;
    this.#run = this.#stay(resolve);
  }

  /** The texts without repeats. */
  get once(): string[] {
    return [...new Set(this.texts)];
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#connection?.close().catch(() => {});
    await this.#run;
  }

  async #stay(ready: () => void): Promise<void> {
    while (!this.#isStopped) {
      try {
        const connection = await openConnection(this.#options);
        this.#connection = connection;
        const closed = new Promise((resolve) => connection.once('close', resolve));
        const channel = await connection.createChannel();
        channel.on('error', () => {});
        await channel.assertQueue(this.#queue, { durable: true });
        await channel.bindQueue(this.#queue, EXCHANGE, `${this.#options.slug}.event.#`);
        await channel.consume(this.#queue, (message) => {
          if (!message) return;
          this.texts.push(message.content.toString());
          channel.ack(message);
        });
        ready();
        await closed;
      } catch {
        await pause(COME_BACK_MS);
      }
    }
  }
}
