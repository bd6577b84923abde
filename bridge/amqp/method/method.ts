/** What a method sees of its channel, and the words that several have in common. */
import type { VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';
import type { Unacked } from '../unacked.ts';
import type { Uplink } from '../uplink.ts';
import { type AmqpError, channelError } from '../wire/amqp-error.ts';
import type { Fields } from '../wire/codec.ts';

/** What a channel needs of its connection. */
export interface ChannelHost {
  readonly vhost: string;
  readonly username: string;
  /** What the client may publish under; undefined where its edge does not say, and the object judges alone. */
  readonly scopes: ReadonlySet<ApiKeyScope> | undefined;
  readonly frameMax: number;
  /** The client said that it understands a cancel from here. */
  readonly hearsOfCancels: boolean;
  write(bytes: Buffer, onTaken?: () => void): void;
  /** Asks for a flush at the end of this turn. */
  schedule(): void;
  /** Counts a publish that leaves. */
  published(): void;
  /** Counts one that does not, for it may not be. */
  refused(): void;
  closed(channel: number): void;
}

/** What the object answers a request that it does not refuse. */
export type Answer = Extract<VhostLinkDown, { kind: 'ok' | 'got' }>;

export interface MethodChannel {
  readonly id: number;
  readonly host: ChannelHost;
  readonly uplink: Uplink;
  readonly unacked: Unacked;
  /** The tags of its consumers. */
  readonly tags: Set<string>;
  prefetch: number;
  /** The queue that was declared last: an empty name means it. */
  lastQueue: string;
  reply(method: number, fields: Fields): void;
  /** Asks the object. A refusal closes the channel, or the connection, by itself. */
  request(method: number, build: (seq: number) => VhostLinkUp, onAnswer: (answer: Answer) => void): void;
  /** Confirms from here on. */
  select(): void;
  close(): void;
}

/** `args`: its fields as bytes. */
export type MethodHandler = (channel: MethodChannel, fields: Fields, method: number, args: Buffer) => void;

export function accessRefused(
  { host }: MethodChannel,
  kind: 'queue' | 'exchange',
  name: string,
  method: number,
): AmqpError {
  const what = `access to ${kind} '${name}' in vhost '${host.vhost}' refused for user '${host.username}'`;
  return channelError(403, what, method);
}

export function checkNotDefault(exchange: string, method: number): void {
  if (exchange === '') throw channelError(403, 'operation not permitted on the default exchange', method);
}

/** The queue that a method names; an empty name is the one that was declared last. */
export function queueOf({ lastQueue }: MethodChannel, fields: Fields, method: number): string {
  const queue = String(fields.queue) || lastQueue;
  if (queue === '') throw channelError(404, 'no previously declared queue', method);
  return queue;
}
