/** The interface between method handlers and their channel, and the checks and errors that handlers share. */
import type { VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';
import type { Unacked } from '../unacked.ts';
import type { Uplink } from '../uplink.ts';
import { type AmqpError, channelError } from '../wire/amqp-error.ts';
import type { Fields } from '../wire/codec.ts';

/** What a channel needs from its connection. */
export interface ChannelHost {
  readonly vhost: string;
  readonly username: string;
  /** The scopes of the client's key; undefined if the edge sends none: then only the object checks them. */
  readonly scopes: ReadonlySet<ApiKeyScope> | undefined;
  readonly frameMax: number;
  /** The client supports a basic.cancel from the server. */
  readonly hearsOfCancels: boolean;
  write(bytes: Buffer, onTaken?: () => void): void;
  /** Schedules a flush at the end of this turn. */
  schedule(): void;
  /** Counts a publish that is sent to the object. */
  published(): void;
  /** Counts a publish that the bridge rejects. */
  refused(): void;
  closed(channel: number): void;
}

/** The object's answer to a request that it does not reject. */
export type Answer = Extract<VhostLinkDown, { kind: 'ok' | 'got' }>;

export interface MethodChannel {
  readonly id: number;
  readonly host: ChannelHost;
  readonly uplink: Uplink;
  readonly unacked: Unacked;
  /** The tags of the channel's consumers. */
  readonly tags: Set<string>;
  prefetch: number;
  /** The queue that was declared last: an empty queue name refers to it. */
  lastQueue: string;
  reply(method: number, fields: Fields): void;
  /** Sends a request to the object. A rejection closes the channel or connection without `onAnswer`. */
  request(method: number, build: (seq: number) => VhostLinkUp, onAnswer: (answer: Answer) => void): void;
  /** Turns on publisher confirms. */
  select(): void;
  close(): void;
}

/** `args` is the encoded form of `fields`. */
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

/** Returns the queue that a method names; an empty name refers to the queue that was declared last. */
export function queueOf({ lastQueue }: MethodChannel, fields: Fields, method: number): string {
  const queue = String(fields.queue) || lastQueue;
  if (queue === '') throw channelError(404, 'no previously declared queue', method);
  return queue;
}
