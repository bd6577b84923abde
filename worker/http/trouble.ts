/**
 * Recognizes temporary failures of the platform: a full disk, a database that does not answer, a restarted
 * object. The answer is 503 instead of 500, because a retry may succeed.
 */
import { causesOf } from '../../durable-objects/object/reason.ts';

/** SQLite errors that our statements do not cause. */
const STORAGE = /SQLITE_(FULL|IOERR|BUSY|LOCKED|NOMEM|CANTOPEN|READONLY|PROTOCOL)/;
/** The platform's messages for an unavailable part, and our own for a failed write or a missing answer. */
const AWAY =
  /overloaded|network connection lost|internal error; reference|storage (operation|caused)|object (reset|to be reset)|write failed|no answer within|of its fence|behind a fence/i;

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
