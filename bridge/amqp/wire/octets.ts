/** Bytes in error texts, written as RabbitMQ writes them. */
import { type AmqpError, connectionError } from './amqp-error.ts';

/** The parts of a frame that error texts show. */
interface FrameExcerpt {
  type: number;
  payload: Buffer;
}

/** A reply text has no room for more octets. */
const MAX_LISTED = 128;
const SNIPPET_BYTES = 16;

/** `<<0,1,2>>`. */
export function listOctets(bytes: Buffer): string {
  return `<<${[...bytes.subarray(0, MAX_LISTED)].join(',')}>>`;
}

/** The type and the first octets of a frame; printable octets are shown as text. */
function snippet({ type, payload }: FrameExcerpt): string {
  const start = payload.subarray(0, SNIPPET_BYTES);
  const text = start.toString('latin1');
  const shown = /^[ -~]+$/.test(text) ? `<<"${text.replace(/["\\]/g, '\\$&')}">>` : listOctets(start);
  const which = payload.length > SNIPPET_BYTES ? `first ${SNIPPET_BYTES}` : 'all';
  return `type ${type}, ${which} octets = ${shown}`;
}

/** The error for an invalid frame. */
export function frameError(frame: FrameExcerpt, what: string): AmqpError {
  return connectionError(501, `${snippet(frame)}: ${what}`);
}

/** The error for a frame that is not allowed in this state. */
export function unexpectedFrame(frame: FrameExcerpt): AmqpError {
  return connectionError(505, snippet(frame));
}
