/** A key for device tokens, as TOKEN_KEYS takes it; put in front of the older ones of the set, it signs and they verify. */
import { makeTokenKeys } from './credentials.ts';

console.log(makeTokenKeys());
