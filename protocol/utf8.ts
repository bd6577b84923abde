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
