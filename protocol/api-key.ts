/**
 * The format of an API key: `sw_` + 43 base62 characters + their CRC32 as 6 base62 characters. Because of the
 * checksum a typo is rejected without a lookup [C-5.1].
 */
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const API_KEY = /^sw_[0-9A-Za-z]{49}$/;
/** Length of the prefix that identifies a key in lists and logs: `sw_` and eight characters. */
const PREFIX_LENGTH = 11;

/**
 * Creates a key from random bytes, at least 64. Skips byte values that would make some characters more likely
 * than others; throws if too few bytes are left.
 */
export function composeApiKey(random: Uint8Array): string {
  let secret = '';
  for (const byte of random) {
    if (byte < 248 && secret.length < SECRET_LENGTH) secret += ALPHABET[byte % 62];
  }
  if (secret.length < SECRET_LENGTH)
    throw new RangeError(`${random.length} random bytes are too few for an API key: pass at least 64`);
  return `sw_${secret}${checksum(secret)}`;
}

export function isWellFormedApiKey(key: string): boolean {
  if (!API_KEY.test(key)) return false;
  const secret = key.slice(3, 3 + SECRET_LENGTH);
  return checksum(secret) === key.slice(3 + SECRET_LENGTH);
}

export function apiKeyPrefix(key: string): string {
  return key.slice(0, PREFIX_LENGTH);
}

function checksum(secret: string): string {
  let rest = crc32(secret);
  let text = '';
  while (text.length < CHECKSUM_LENGTH) {
    text = ALPHABET[rest % 62] + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}

function crc32(text: string): number {
  let crc = 0xffffffff;
  for (let index = 0; index < text.length; index++) {
    crc ^= text.charCodeAt(index);
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}
