/**
 * Hashes a nonce to eight bytes: HalfSipHash-2-4 with 64 bits of output. Each object uses a random key, so a
 * client cannot construct two nonces that collide. Plain arithmetic without allocations in the loop: a wake
 * may hash hundreds of thousands.
 */
export type NonceKey = readonly [number, number];

export function randomNonceKey(): NonceKey {
  const [first = 0, second = 0] = crypto.getRandomValues(new Uint32Array(2));
  return [first, second];
}

/**
 * Hashes a text's UTF-16 units, two per 32-bit word. The state is in local variables and the rounds are one loop, without
 * an array or an object, because every reading is hashed.
 */
export function hashNonce([k0, k1]: NonceKey, text: string): [number, number] {
  const units = text.length;
  const words = (units >>> 1) + 1;
  let v0 = k0 | 0;
  let v1 = k1 ^ 0xee;
  let v2 = 0x6c796765 ^ k0;
  let v3 = 0x74656462 ^ k1;
  let high = 0;
  // Each word takes two rounds; the eight rounds after the last one make the two halves of the hash.
  for (let step = 0; step < words + 4; step++) {
    let word = 0;
    if (step < words - 1) word = text.charCodeAt(2 * step) | (text.charCodeAt(2 * step + 1) << 16);
    else if (step === words - 1)
      word = (units % 2 === 1 ? text.charCodeAt(units - 1) : 0) | (((units * 2) & 0xff) << 24);
    else if (step === words) v2 ^= 0xee;
    else if (step === words + 2) {
      high = v1 ^ v3;
      v1 ^= 0xdd;
    }
    v3 ^= word;
    for (let round = 0; round < 2; round++) {
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
    }
    v0 ^= word;
  }
  return [high >>> 0, (v1 ^ v3) >>> 0];
}
