/**
 * Raw slices of JSON text. Signatures cover the text as it was sent, so it is never parsed and serialized
 * again: Python's `5.0` and `1e-05`, an escaped `č` and the order of integer-like keys would all change in
 * JavaScript [C-3.7].
 */
import { ok, type Result, refuse } from './result.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

function isWhitespace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

/** The index after the string that starts at `start`. The text must be valid JSON. */
function endOfString(text: string, start: number): number {
  for (let index = start + 1; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === BACKSLASH) index++;
    else if (code === QUOTE) return index + 1;
  }
  return text.length;
}

/** Removes the whitespace outside strings. `text` must be valid JSON. */
export function compact(text: string): string {
  if (!/[ \t\r\n]/.test(text)) return text;
  let out = '';
  let from = 0;
  let index = 0;
  while (index < text.length) {
    const code = text.charCodeAt(index);
    if (code === QUOTE) {
      index = endOfString(text, index);
    } else if (isWhitespace(code)) {
      out += text.slice(from, index);
      while (index < text.length && isWhitespace(text.charCodeAt(index))) index++;
      from = index;
    } else {
      index++;
    }
  }
  return from === 0 ? text : out + text.slice(from);
}

/**
 * The members of a JSON object as raw text, keyed by name. Refuses with a reason: text that is not a JSON
 * object, a repeated top-level key, and an escaped top-level key (which could be a second spelling of the
 * same name).
 */
export function sliceMembers(text: string): Result<Map<string, string>, string> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return refuse('not JSON');
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    return refuse('not a JSON object');
  const members = new Map<string, string>();
  let index = text.indexOf('{') + 1;
  for (;;) {
    while (isWhitespace(text.charCodeAt(index)) || text[index] === ',') index++;
    if (text[index] === '}') return ok(members);
    const keyEnd = endOfString(text, index);
    const key = text.slice(index + 1, keyEnd - 1);
    if (key.includes('\\')) return refuse('escaped top-level key');
    if (members.has(key)) return refuse(`repeated key "${key.slice(0, 64)}"`);
    index = text.indexOf(':', keyEnd) + 1;
    while (isWhitespace(text.charCodeAt(index))) index++;
    const valueEnd = endOfValue(text, index);
    members.set(key, text.slice(index, valueEnd));
    index = valueEnd;
  }
}

/** The index after the value that starts at `start`, without trailing whitespace. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  let index = start;
  while (index < text.length) {
    const char = text[index];
    if (char === '"') {
      index = endOfString(text, index);
      if (depth === 0) return index;
      continue;
    }
    if (char === '{' || char === '[') depth++;
    else if (char === '}' || char === ']') {
      if (depth === 0) break;
      depth--;
      if (depth === 0) return index + 1;
    } else if (char === ',' && depth === 0) break;
    index++;
  }
  while (isWhitespace(text.charCodeAt(index - 1))) index--;
  return index;
}

/** Whether brackets and braces outside strings nest deeper than `limit`. Such text may be slow to process. */
export function isDeeperThan(text: string, limit: number): boolean {
  let depth = 0;
  let inString = false;
  for (let index = 0; index < text.length; index++) {
    const char = text[index];
    if (inString) {
      if (char === '\\') index++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === '{' || char === '[') {
      depth++;
      if (depth > limit) return true;
    } else if (char === '}' || char === ']') depth--;
  }
  return false;
}

/** JSON text for signing: ASCII only, decimals without exponent and with at most six places [C-3.7]. */
export function signableJson(value: unknown): string {
  const json = JSON.stringify(value, (_key, item) => (typeof item === 'number' ? plainNumber(item) : item));
  return json.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Rounds to six decimals and clamps to ±1e15, so that JSON prints the number without an exponent. */
function plainNumber(value: number): number {
  const rounded = Math.round(value * 1e6) / 1e6;
  const magnitude = Math.abs(rounded);
  if (magnitude > 1e15) return rounded > 0 ? 1e15 : -1e15;
  return magnitude < 1e-6 ? 0 : rounded;
}
