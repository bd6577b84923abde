/** The brokers that the transcripts are played on, as the stage sees them: a lane is a vhost with its user. */
import type { Duplex } from 'node:stream';

export interface Lane {
  user: string;
  password: string;
  vhost: string;
  /** One that exists and is not the user's to enter. */
  otherVhost: string;
  connect(): Promise<Duplex>;
}

export interface Broker {
  /** The lane of a group of transcripts: groups do not see each other's messages. */
  lane(group: string): Promise<Lane>;
  stop(): Promise<void>;
}

/** What a user may do, as RabbitMQ is told it: regular expressions over names, and over routing keys of `vcp`. */
export interface Rights {
  configure: string;
  write: string;
  read: string;
}

/** Names stand in transcripts as `$U` (user), `$V` (vhost), `$W` (another vhost) and `$own` (the transcript's own). */
export class Names {
  readonly #pairs: [placeholder: string, name: string][];

  constructor({ user, vhost, otherVhost, password }: Lane, own: string) {
    this.#pairs = [
      ['$V', vhost],
      ['$W', otherVhost],
      ['$U', user],
      ['$own', own],
      ['$P', password],
    ];
  }

  /** A value with the names of this lane in it, however deep. */
  fill<Value>(value: Value): Value {
    return fillWith(this.#pairs, value) as Value;
  }

  /** A text with the placeholders in it, also for names that the server makes up. */
  hide(text: string): string {
    const hidden = this.#pairs.reduce(
      (left, [placeholder, name]) => left.replaceAll(name, () => placeholder),
      text,
    );
    return hidden.replace(/amq\.(gen|ctag)-[\w-]{22}/g, 'amq.$1-*');
  }
}

function fillWith(pairs: readonly [string, string][], value: unknown): unknown {
  if (typeof value === 'string')
    return pairs.reduce((text, [placeholder, name]) => text.replaceAll(placeholder, () => name), value);
  if (Array.isArray(value)) return value.map((one) => fillWith(pairs, one));
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fillWith(pairs, one)]));
}
