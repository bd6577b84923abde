/** What a test's AMQP and MQTT clients share: a stream, and the frames or packets that they receive on it. */
import type { Duplex } from 'node:stream';
import { Signal } from './bridge-signal.ts';

export abstract class TestPeer<Item> {
  readonly stream: Duplex;
  /** Everything received so far, in order. */
  readonly items: Item[] = [];
  bytes = 0;
  ended = false;
  /** Received bytes that are not a whole item. */
  protected rest: Buffer = Buffer.alloc(0);
  #taken = 0;
  readonly #signal = new Signal();

  constructor(stream: Duplex) {
    this.stream = stream;
    stream.on('data', (chunk: Buffer) => {
      this.bytes += chunk.length;
      this.rest = Buffer.concat([this.rest, chunk]);
      for (let end = this.keepFirst(); end > 0; end = this.keepFirst()) this.rest = this.rest.subarray(end);
      this.#signal.changed();
    });
    stream.on('error', () => {});
    const end = () => {
      this.ended = true;
      this.#signal.changed();
    };
    stream.on('end', end);
    stream.on('close', end);
  }

  /** Keeps the first item of `rest` and returns where it ends; 0 if it is not whole. */
  protected abstract keepFirst(): number;

  write(...bytes: Buffer[]): void {
    this.stream.write(Buffer.concat(bytes));
  }

  /** Resolves with the next item. */
  next(): Promise<Item> {
    return this.#signal.until(() => {
      const next = this.items[this.#taken];
      if (next) {
        this.#taken += 1;
        return next;
      }
      if (this.ended) throw new Error('the connection ended before a frame');
      return undefined;
    });
  }

  untilEnded(): Promise<true> {
    return this.until(() => this.ended || undefined);
  }

  /** Resolves with the first defined value of `look`, now or after the client received something. */
  until<Value>(look: () => Value | undefined): Promise<Value> {
    return this.#signal.until(look);
  }
}
