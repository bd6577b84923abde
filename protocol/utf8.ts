/** How many bytes a text is in UTF-8, without making them. */
export function utf8Length(text: string): number {
  let length = text.length;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 0x80) continue;
    // A pair of surrogates is two units and four bytes; a lone one is written as the three of U+FFFD.
    const isPair = code >= 0xd800 && code < 0xdc00 && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00;
    length += code < 0x800 ? 1 : 2;
    if (isPair) index++;
  }
  return length;
}

/** The order of two texts in UTF-8, as SQLite has it; code units order pairs of surrogates before U+E000. */
export function compareUtf8(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const [one, other] = [left.charCodeAt(index), right.charCodeAt(index)];
    if (one !== other) return rank(one) - rank(other);
  }
  return left.length - right.length;
}

/** Surrogates behind all else: what they stand for is. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}
