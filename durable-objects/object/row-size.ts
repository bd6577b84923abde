/** Rows are at most 1 MB of text (rule 9). Cloudflare's limit is 2 MB, and the local runtime has none. */
const MAX_ROW_CHARS = 1024 * 1024;

/** Returns the text of a row; throws if it is too long, which only a bug can cause. */
export function boundedRow(text: string): string {
  if (text.length > MAX_ROW_CHARS)
    throw new RangeError(`row too large: ${text.length} characters, the limit is ${MAX_ROW_CHARS}`);
  return text;
}

/** Like `boundedRow`, for bytes. `beside`: size of the other columns of the row. */
export function boundedBytes(bytes: Uint8Array, beside: number): ArrayBuffer {
  if (bytes.length + beside > MAX_ROW_CHARS)
    throw new RangeError(`row too large: ${bytes.length + beside} bytes, the limit is ${MAX_ROW_CHARS}`);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
}
