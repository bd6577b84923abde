/** Bytes as base64 text, and as base64url without padding. */

export function base64(value: Uint8Array): string {
  return btoa(String.fromCharCode(...value));
}

export function base64Url(value: Uint8Array): string {
  return base64(value).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** The bytes of a text in base64 or base64url. */
export function bytesOf(text: string): Uint8Array {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

/** 256 random bits, as 43 characters. */
export function randomToken(): string {
  return base64Url(crypto.getRandomValues(new Uint8Array(32)));
}
