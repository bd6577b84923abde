/** The checks and errors that method handlers share. */
import type { Channel } from '../channel.ts';
import { type AmqpError, channelError } from '../wire/amqp-error.ts';
import type { Fields } from '../wire/codec.ts';

export function accessRefused(
  { host }: Channel,
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
export function queueOf({ lastQueue }: Channel, fields: Fields, method: number): string {
  const queue = String(fields.queue) || lastQueue;
  if (queue === '') throw channelError(404, 'no previously declared queue', method);
  return queue;
}
