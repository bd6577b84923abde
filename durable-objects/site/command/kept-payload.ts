/**
 * How the payload of a command is kept and shown. What is rejected may be anything up to 256 KiB, of any partner and
 * any number: its row keeps the beginning, the length and a digest. Pure.
 */
import { isDeeperThan } from '../../../protocol/compact-json.ts';
import { JsonText } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { sha256Hex } from '../../secrets/hmac.ts';

/** The payload of a rejected command as its row keeps it: the same text gives the same. */
export function rejectedPayload(compactText: string): string {
  return compactText.length <= LIMIT.rejectedPayloadCharacters ? compactText : cut(compactText);
}

/** Payloads of one page: beyond what a page may hold, and nested too far, only their beginning. */
export class PagePayloads {
  #chars = 0;

  read(text: string): JsonText {
    this.#chars += text.length;
    const isShown = this.#chars <= LIMIT.commandsPageCharacters && !isDeeperThan(text, LIMIT.envelopeDepth);
    return new JsonText(isShown ? text : cut(text));
  }
}

/** What is kept of a text that is cut: escaped and in UTF-8 it stays within the bound of a rejected one. */
const KEPT_CHARACTERS = 1_024;

function cut(text: string): string {
  const truncated = text.slice(0, KEPT_CHARACTERS);
  return JSON.stringify({ truncated, characters: text.length, sha256: sha256Hex(text) });
}
