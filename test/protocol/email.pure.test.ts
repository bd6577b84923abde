/**
 * E-mail addresses as RFC 5321 has them: a dot string, and a domain of names; a name outside ASCII is written as `xn--`.
 * Quoted local parts and address literals are refused, because many mail servers refuse them, too.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import { email } from '../../protocol/user.ts';

/** RFC 5322, atext. */
const ATEXT = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-/=?^_`{|}~";

describe('an e-mail address', () => {
  it.each([
    'jana@example.com',
    'a&b@example.com',
    'key=value@example.com',
    'fifty%off@example.com',
    "o'neil@example.com",
    'jana+energy@example.com',
    'first.last@sub.example.co.uk',
    "!#$%&'*+-/=?^_`{|}~@example.com",
    '-jana-@example.com',
    '_@example.com',
    '1@1.example.com',
    'jana@xn--bcher-kva.example',
    'jana@xn--e1afmkfd.xn--p1ai',
    'jana@example.xn--mgbh0fb',
    'jana@123.com',
    'jana@a-b--c.example',
    `${'a'.repeat(64)}@example.com`,
    `jana@${'a'.repeat(63)}.example`,
  ])('is accepted as %s', (text) => {
    expect(email.parse(text)).toBe(text.toLowerCase());
  });

  it.each([
    '',
    'jana',
    '@example.com',
    'jana@',
    'jana@example',
    'jana@localhost',
    '.jana@example.com',
    'jana.@example.com',
    'ja..na@example.com',
    'ja na@example.com',
    'jana@example.com ',
    ' jana@example.com',
    'jana@example.com\n',
    'jana\r\nBcc: x@example.com',
    'jana@example.com\r\nBcc: <x@example.com>',
    'jana\0@example.com',
    'jana@exa\0mple.com',
    'jana@@example.com',
    'jana@a@example.com',
    'Jana <jana@example.com>',
    '<jana@example.com>',
    'jana(comment)@example.com',
    'jana,eva@example.com',
    'jana;eva@example.com',
    'ja:na@example.com',
    'ja\\na@example.com',
    'ja[na]@example.com',
    '"ja na"@example.com',
    '"jana"@example.com',
    'jana@[192.0.2.1]',
    'jana@[IPv6:2001:db8::1]',
    'jana@192.0.2.1',
    'jana@.example.com',
    'jana@example.com.',
    'jana@example..com',
    'jana@-example.com',
    'jana@example-.com',
    'jana@example.-com',
    'jana@example.com-',
    'jana@exam_ple.com',
    'jana@exam%ple.com',
    'jana@example.1',
    `${'a'.repeat(65)}@example.com`,
    `jana@${'a'.repeat(64)}.example`,
    `jana@${'a.'.repeat(125)}com`,
    'jána@example.com',
    'ｊana@example.com',
    'jana@ｅxample.com',
    'jana\u202e@example.com',
  ])('is refused as %j', (text) => {
    expect(email.safeParse(text).success).toBe(false);
  });

  it('is refused with its remedy if its domain is not ASCII', () => {
    const { error } = email.safeParse('jana@bücher.example');
    expect(error?.issues[0]?.message).toMatch(/xn--/);
  });

  it('is accepted with every local part that RFC 5322 calls a dot-atom, up to 64 characters', () => {
    const atom = fc.string({ unit: fc.constantFrom(...ATEXT), minLength: 1, maxLength: 12 });
    const local = fc.array(atom, { minLength: 1, maxLength: 4 }).map((atoms) => atoms.join('.'));
    forAll(local, (text) => {
      expect(email.parse(`${text}@example.com`)).toBe(`${text}@example.com`.toLowerCase());
    });
  });

  it('is refused within 100 ms, however hostile it is', () => {
    const startMs = performance.now();
    for (const text of [
      `${'a.'.repeat(100_000)}@`,
      `a@${'a-'.repeat(100_000)}`,
      `a@${'a.'.repeat(100_000)}!`,
    ])
      expect(email.safeParse(text).success).toBe(false);
    expect(performance.now() - startMs).toBeLessThan(100);
  });
});
