/** Sealed secrets: only the whole text, sealed for the same purpose under a known key, can be opened [C-5.1]. */
import { describe, expect, it } from 'vitest';
import { countOfVersions, SecretBox } from '../../../durable-objects/secrets/secret-box.ts';

const KEYS = { 1: `1:${'5a'.repeat(32)}`, 2: `2:${'3c'.repeat(32)}` };
const PURPOSE = 'key/1';
const SECRET = 'a signing key of 64 characters';

describe('a sealed secret', () => {
  const box = new SecretBox(KEYS[1]);
  const sealed = box.seal(PURPOSE, SECRET);
  const [version, iv, body, tag = ''] = sealed.split('.');

  it('is opened for its purpose only [C-5.1]', () => {
    expect(box.open(PURPOSE, sealed)).toBe(SECRET);
    expect(sealed).not.toContain(SECRET);
    expect(() => box.open('key/2', sealed)).toThrow();
  });

  it('can be opened as long as its key is listed; new secrets are sealed with the first key [C-5.1]', () => {
    const both = new SecretBox(`${KEYS[2]},${KEYS[1]}`);
    expect(both.open(PURPOSE, sealed)).toBe(SECRET);
    expect(both.seal(PURPOSE, SECRET)).toMatch(/^2\./);
    expect(() => new SecretBox(KEYS[2]).open(PURPOSE, sealed)).toThrow(/no key of version "1"/);
  });

  it('is old if another key than the first one of the list sealed it, and that key is listed [C-14.7]', () => {
    const both = new SecretBox(`${KEYS[2]},${KEYS[1]}`);
    const renewed = both.seal(PURPOSE, SECRET);
    expect([both.isOld(sealed), both.isOld(renewed)]).toEqual([true, false]);
    expect([box.isOld(sealed), box.isOld(renewed)]).toEqual([false, false]);
    expect(countOfVersions([sealed, renewed, sealed])).toEqual({ 1: 2, 2: 1 });
  });

  it.each([4, 8, 12, 15])('is not opened if its tag has only %i bytes [C-5.1]', (length) => {
    const short = Buffer.from(tag, 'base64').subarray(0, length).toString('base64');
    expect(() => box.open(PURPOSE, [version, iv, body, short].join('.'))).toThrow();
  });

  it('is not opened if it was changed [C-5.1]', () => {
    const changed = Buffer.from(body ?? '', 'base64');
    changed[0] = (changed[0] ?? 0) ^ 1;
    expect(() => box.open(PURPOSE, [version, iv, changed.toString('base64'), tag].join('.'))).toThrow();
  });
});
