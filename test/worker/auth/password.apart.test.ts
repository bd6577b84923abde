/** Passwords are stored as scrypt hashes with their own salt; an unknown user costs as much work [C-1.4]. */
import { scryptSync } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { base64Url } from '#workerd/door.ts';

vi.mock('node:crypto', async (importOriginal) => {
  const original = await importOriginal<{ scryptSync: typeof scryptSync }>();
  return { ...original, scryptSync: vi.fn(original.scryptSync) };
});

// The Worker around the tests already loaded the real scrypt: import the module again, with the mock.
vi.resetModules();
const { hashPassword, verifyPassword } = await import('../../../worker/auth/password.ts');

const PASSWORD = 'correct horse battery';
const WRONG = 'not my password';

afterEach(() => {
  vi.mocked(scryptSync).mockClear();
});

/** The length, N, r and p of each derivation. */
function costs(): unknown[] {
  return vi.mocked(scryptSync).mock.calls.map(([, , length, options = {}]) => {
    return [length, options.cost, options.blockSize, options.parallelization];
  });
}

/** A hash of another cost, as stored in the table. */
function hashedAt(cost: number, blockSize: number, parallelization: number, password: string): string {
  const salt = crypto.getRandomValues(new Uint8Array(16));
  const hash = scryptSync(password, salt, 32, { cost, blockSize, parallelization, maxmem: 2 ** 26 });
  const text = (bytes: Uint8Array) => base64Url(String.fromCharCode(...bytes));
  return ['scrypt', cost, blockSize, parallelization, text(salt), text(hash)].join('$');
}

describe('a stored hash', () => {
  it('consists of scheme, cost, salt and the 32 bytes that scrypt derived, and nothing else [C-1.4]', () => {
    const hash = hashPassword(PASSWORD);
    expect(hash).toMatch(/^scrypt\$32768\$8\$3\$[\w-]{22}\$[\w-]{43}$/);
    expect(costs()).toEqual([[32, 32_768, 8, 3]]);
  });

  it('has another salt each time, for the same password too [C-1.4]', () => {
    const [one, other] = [hashPassword(PASSWORD), hashPassword(PASSWORD)];
    for (const part of [4, 5]) expect(one.split('$')[part]).not.toBe(other.split('$')[part]);
    expect([verifyPassword(PASSWORD, one), verifyPassword(PASSWORD, other)]).toEqual([true, true]);
  });

  it('matches only its own password [C-1.4]', () => {
    const hash = hashPassword(PASSWORD);
    expect(verifyPassword(PASSWORD, hash)).toBe(true);
    for (const wrong of [WRONG, '', `${PASSWORD} `, PASSWORD.slice(0, -1), PASSWORD.toUpperCase()]) {
      expect([wrong, verifyPassword(wrong, hash)]).toEqual([wrong, false]);
    }
  });

  it('depends on all 200 characters of the password, also those after a NUL [C-1.4]', () => {
    const long = 'x'.repeat(199);
    expect(verifyPassword(`${long}b`, hashPassword(`${long}a`))).toBe(false);
    expect(verifyPassword('one\0two words', hashPassword('one\0other words'))).toBe(false);
  });

  it('is verified with the cost that it names if that is another one [C-1.4]', () => {
    for (const [cost, blockSize, parallelization] of [
      [1_024, 8, 1],
      [2_048, 4, 2],
      [32_768, 8, 1],
    ] as const) {
      const hash = hashedAt(cost, blockSize, parallelization, PASSWORD);
      vi.mocked(scryptSync).mockClear();
      expect([verifyPassword(PASSWORD, hash), verifyPassword(WRONG, hash)]).toEqual([true, false]);
      const each = [32, cost, blockSize, parallelization];
      expect(costs()).toEqual([each, each]);
    }
  });

  it('no longer matches its password if it was changed; one of an unknown scheme makes the check throw [C-1.4]', () => {
    const hash = hashPassword(PASSWORD);
    const [scheme, cost, blockSize, parallelization, salt, derived = ''] = hash.split('$');
    const start = [scheme, cost, blockSize, parallelization, salt].join('$');
    for (const changed of ['', derived.slice(0, 20), `${derived}AAAA`, derived.replace(/^./, 'A')]) {
      if (changed !== derived) expect(verifyPassword(PASSWORD, `${start}$${changed}`)).toBe(false);
    }
    for (const other of ['', 'x', PASSWORD, `plain$${PASSWORD}`, hash.replace('scrypt', 'bcrypt')]) {
      expect(() => verifyPassword(PASSWORD, other)).toThrow(/scheme/);
    }
  });
});

describe('the password of an unknown user', () => {
  it('no password matches a missing hash, and the check costs as much as for a real hash [C-1.4]', () => {
    for (const stored of [undefined, null]) {
      for (const password of [PASSWORD, '', '\0'.repeat(32)])
        expect(verifyPassword(password, stored)).toBe(false);
    }
    const nobodys = costs();
    vi.mocked(scryptSync).mockClear();
    verifyPassword(WRONG, hashPassword(PASSWORD));
    expect(new Set(nobodys.map(String))).toEqual(new Set(costs().map(String)));
    expect(nobodys).toHaveLength(6);
  });
});

describe('a password', () => {
  it('is normalized to Unicode NFKC, so the same text in another Unicode form matches [C-1.4]', () => {
    const pairs = [
      ['příliš žluťoučký', 'příliš žluťoučký'.normalize('NFD')],
      ['\ufb01ve \ufb01ngers', 'five fingers'],
      ['\uff11\uff12\uff13\uff14', '1234'],
      ['\u212bngström', '\u00c5ngström'],
    ] as const;
    for (const [one, other] of pairs) {
      expect(one).not.toBe(other);
      expect([one, verifyPassword(other, hashPassword(one))]).toEqual([one, true]);
      expect([other, verifyPassword(one, hashPassword(other))]).toEqual([other, true]);
    }
    expect(verifyPassword('prilis zlutoucky', hashPassword('příliš žluťoučký'))).toBe(false);
  });
});
