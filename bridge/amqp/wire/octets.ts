/** Bytes in error texts, written as RabbitMQ writes them. */
import { type AmqpError, connectionError } from './amqp-error.ts';

/** What of a frame is told. */
interface Told {
  type: number;
  payload: Buffer;
}

/** A text holds no more of them. */
const MAX_LISTED = 128;
const SNIPPET_BYTES = 16;

/** `<<0,1,2>>`. */
export function listOctets(bytes: Buffer): string {
  return `<<${[...bytes.subarray(0, MAX_LISTED)].join(',')}>>`;
}

/** Its type and how it begins; what is all text is shown as text. */
function snippet({ type, payload }: Told): string {
  const start = payload.subarray(0, SNIPPET_BYTES);
  const text = start.toString('latin1');
  const shown = /^[ -~]+$/.test(text) ? `<<"${text.replace(/["\\]/g, '\\$&')}">>` : listOctets(start);
  const which = payload.length > SNIPPET_BYTES ? `first ${SNIPPET_BYTES}` : 'all';
  return `type ${type}, ${which} octets = ${shown}`;
}

/** A frame that is none. */
export function frameError(frame: Told, what: string): AmqpError {
  return connectionError(501, `${snippet(frame)}: ${what}`);
}

/** A frame that has no place where it came. */
export function unexpectedFrame(frame: Told): AmqpError {
  return connectionError(505, snippet(frame));
}
