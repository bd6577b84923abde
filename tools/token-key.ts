/**
 * Prints a new key for device tokens in the form that TOKEN_KEYS takes. Add it to the set before the older
 * keys: the first key signs, and the other keys still verify.
 */
import { makeTokenKeys } from './credentials.ts';

console.log(makeTokenKeys());
