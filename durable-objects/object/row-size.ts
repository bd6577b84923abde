/** Rows are at most 1 MB of text (rule 9). The platform's own limit is 2 MB, and the local runtime has none. */
const MAX_ROW_CHARS = 1024 * 1024;

/** The text of a row, or an exception: a bound that only a bug passes. */
export function boundedRow(text: string): string {
  if (text.length > MAX_ROW_CHARS) throw new RangeError(`a row of ${text.length} characters`);
  return text;
}

/** The same for bytes, with so much beside them in the row. */
export function boundedBytes(bytes: Uint8Array, beside: number): ArrayBuffer {
  if (bytes.length + beside > MAX_ROW_CHARS) throw new RangeError(`a row of ${bytes.length + beside} bytes`);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
}
