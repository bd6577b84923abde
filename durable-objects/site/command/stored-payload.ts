/**
 * How a command's payload is stored and shown. A rejected payload may be any text up to 256 KiB, and a
 * partner may send many: a long one is stored as its beginning, its length and a digest. Pure.
 */
import { isDeeperThan } from '../../../protocol/compact-json.ts';
import { JsonText } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { sha256Hex } from '../../secrets/hmac.ts';

/** The stored form of a rejected command's payload. Deterministic: the same text gives the same result. */
export function rejectedPayload(compactText: string): string {
  return compactText.length <= LIMIT.rejectedPayloadCharacters ? compactText : cut(compactText);
}

/**
 * The payloads of one page. Shows only the beginning of those beyond the page's size and those nested too
 * deeply.
 */
export class PagePayloads {
  #chars = 0;

  read(text: string): JsonText {
    this.#chars += text.length;
    const isShown = this.#chars <= LIMIT.commandsPageCharacters && !isDeeperThan(text, LIMIT.envelopeDepth);
    return new JsonText(isShown ? text : cut(text));
  }
}

/** Length of a cut text: even escaped and in UTF-8 it stays within the limit for a rejected payload. */
const KEPT_CHARACTERS = 1_024;

function cut(text: string): string {
  const truncated = text.slice(0, KEPT_CHARACTERS);
  return JSON.stringify({ truncated, characters: text.length, sha256: sha256Hex(text) });
}
