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

/** Hashes a text's UTF-16 units, two per 32-bit word. */
export function hashNonce([k0, k1]: NonceKey, text: string): [number, number] {
  const state = new State(k0, k1);
  const units = text.length;
  for (let at = 0; at + 1 < units; at += 2) {
    state.take(text.charCodeAt(at) | (text.charCodeAt(at + 1) << 16));
  }
  const last = units % 2 === 1 ? text.charCodeAt(units - 1) : 0;
  state.take(last | (((units * 2) & 0xff) << 24));
  return state.finish();
}

class State {
  #v0: number;
  #v1: number;
  #v2: number;
  #v3: number;

  constructor(k0: number, k1: number) {
    this.#v0 = k0;
    this.#v1 = k1 ^ 0xee;
    this.#v2 = 0x6c796765 ^ k0;
    this.#v3 = 0x74656462 ^ k1;
  }

  take(word: number): void {
    this.#v3 ^= word;
    this.#rounds(2);
    this.#v0 ^= word;
  }

  finish(): [number, number] {
    this.#v2 ^= 0xee;
    this.#rounds(4);
    const high = (this.#v1 ^ this.#v3) >>> 0;
    this.#v1 ^= 0xdd;
    this.#rounds(4);
    return [high, (this.#v1 ^ this.#v3) >>> 0];
  }

  #rounds(count: number): void {
    let [v0, v1, v2, v3] = [this.#v0, this.#v1, this.#v2, this.#v3];
    for (let round = 0; round < count; round++) {
      v0 = (v0 + v1) | 0;
      v1 = rotate(v1, 5) ^ v0;
      v0 = rotate(v0, 16);
      v2 = (v2 + v3) | 0;
      v3 = rotate(v3, 8) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = rotate(v3, 7) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = rotate(v1, 13) ^ v2;
      v2 = rotate(v2, 16);
    }
    this.#v0 = v0;
    this.#v1 = v1;
    this.#v2 = v2;
    this.#v3 = v3;
  }
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}
