/** The length of a text in UTF-8 bytes, without encoding it. */
export function utf8Length(text: string): number {
  let length = text.length;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 0x80) continue;
    // A surrogate pair has two units and four bytes. A lone surrogate becomes U+FFFD, which has three bytes.
    const isPair = code >= 0xd800 && code < 0xdc00 && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00;
    length += code < 0x800 ? 1 : 2;
    if (isPair) index++;
  }
  return length;
}

/** Compares by UTF-8 bytes, as SQLite does. By code units, surrogate pairs would sort before U+E000. */
export function compareUtf8(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const [one, other] = [left.charCodeAt(index), right.charCodeAt(index)];
    if (one !== other) return rank(one) - rank(other);
  }
  return left.length - right.length;
}

/** Sorts surrogates after all other units, because they encode characters above U+FFFF. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** The text without a byte order mark at its beginning [C-15.8]. */
export function withoutMark(text: string): string {
  return text.startsWith('\ufeff') ? text.slice(1) : text;
}

/** The offset of the first byte that is not UTF-8, at which its sequence begins; undefined if all bytes are. */
export function invalidUtf8At(bytes: Uint8Array): number | undefined {
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceLength(bytes, at);
    if (length === 0) return at;
    at += length;
  }
  return undefined;
}

/** The length of the UTF-8 sequence at this place; 0 if none begins there (Unicode, table 3-7). */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const [first = 0, second = 0] = [bytes[at], bytes[at + 1]];
  if (first < 0x80) return 1;
  const length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  const [low, high] = SECOND.get(first) ?? [0x80, 0xbf];
  if (length === 0 || second < low || second > high) return 0;
  for (let place = 2; place < length; place++) {
    if (((bytes[at + place] ?? 0) & 0xc0) !== 0x80) return 0;
  }
  return length;
}

/** The second bytes that may follow some first bytes: others would encode a surrogate, too much or too long. */
const SECOND = new Map<number, readonly [low: number, high: number]>([
  [0xe0, [0xa0, 0xbf]],
  [0xed, [0x80, 0x9f]],
  [0xf0, [0x90, 0xbf]],
  [0xf4, [0x80, 0x8f]],
]);
