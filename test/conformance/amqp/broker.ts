/** The brokers that run the transcripts, as the stage sees them. A lane is a vhost with its user. */
import type { Duplex } from 'node:stream';

export interface Lane {
  user: string;
  password: string;
  vhost: string;
  /** A vhost that exists but that the user may not enter. */
  otherVhost: string;
  connect(): Promise<Duplex>;
}

export interface Broker {
  /** The lane of a group of transcripts. Groups do not see each other's messages. */
  lane(group: string): Promise<Lane>;
  stop(): Promise<void>;
}

/**
 * A user's permissions, in RabbitMQ's form: regular expressions over names, and over routing keys of `vcp`.
 */
export interface Rights {
  configure: string;
  write: string;
  read: string;
}

/**
 * Transcripts use placeholders for names: `$U` (user), `$V` (vhost), `$W` (another vhost) and `$own` (the
 * transcript's own).
 */
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

  /** Replaces the placeholders in a value with the names of this lane, at any depth. */
  fill<Value>(value: Value): Value {
    return fillWith(this.#pairs, value) as Value;
  }

  /** Replaces the names in a text with their placeholders, including names that the server generates. */
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
