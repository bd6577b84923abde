/**
 * Prints a new key for device tokens in the form that TOKEN_KEYS takes. Put it in front of the older keys of
 * the set: the first key signs, the others still verify.
 */
import { makeTokenKeys } from './credentials.ts';

console.log(makeTokenKeys());
