/**
 * Trouble of the parts that we stand on, not of a request: a disk that is full, a database that does not answer, an
 * object that started over. Whoever asks again soon may be answered, so it is 503 and not 500.
 */
import { causesOf } from '../../durable-objects/object/reason.ts';

/** SQLite's codes for what no statement of ours is to blame for. */
const STORAGE = /SQLITE_(FULL|IOERR|BUSY|LOCKED|NOMEM|CANTOPEN|READONLY|PROTOCOL)/;
/** The platform's words for a part that is away, and ours for one that did not write or answer. */
const AWAY =
  /overloaded|network connection lost|internal error; reference|storage (operation|caused)|object (reset|to be reset)|write failed|no answer within/i;

interface PlatformError extends Error {
  retryable?: boolean;
  overloaded?: boolean;
  durableObjectReset?: boolean;
}

export function isTrouble(error: Error): boolean {
  return causesOf(error).some((cause: PlatformError) => isTroubled(cause));
}

function isTroubled({ message, retryable, overloaded, durableObjectReset }: PlatformError): boolean {
  const isSaid = [retryable, overloaded, durableObjectReset].includes(true);
  return isSaid || STORAGE.test(message) || AWAY.test(message);
}
