/** The credentials of a SASL response: only PLAIN and AMQPLAIN, and only well-formed [C-6.3]. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { longString, tableBytes, tableEntry } from '#support/bridge-amqp-frames.ts';
import { forAll, forMany } from '#support/property.ts';
import { MECHANISMS, readSasl } from '../../../bridge/amqp/sasl.ts';

/** A table without its length, as clients send it. */
function amqplain(...entries: Buffer[]): Buffer {
  return tableBytes(...entries).subarray(4);
}

const login = (name: string) => tableEntry('LOGIN', 'S', longString(name));
const password = (word: string) => tableEntry('PASSWORD', 'S', longString(word));
const word = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\0'));

describe('a SASL response', () => {
  it('the bridge offers PLAIN and AMQPLAIN, not EXTERNAL', () => {
    expect(MECHANISMS.split(' ')).toEqual(['PLAIN', 'AMQPLAIN']);
  });

  it('PLAIN and AMQPLAIN return the user name and the password unchanged', () => {
    forAll(word, fc.oneof(word, fc.constant('')), (username, secret) => {
      const expected = { username, password: secret };
      expect(readSasl('PLAIN', Buffer.from(`\0${username}\0${secret}`))).toEqual(expected);
      expect(readSasl('AMQPLAIN', amqplain(login(username), password(secret)))).toEqual(expected);
      expect(readSasl('AMQPLAIN', amqplain(password(secret), login(username)))).toEqual(expected);
    });
  });

  it('a password keeps characters that a URI escapes', () => {
    expect(readSasl('PLAIN', Buffer.from('\0acme\0a/b+c=@:%x'))?.password).toBe('a/b+c=@:%x');
  });

  it.each([
    ['nothing', ''],
    ['one part', 'acme'],
    ['two parts', '\0acme'],
    ['four parts', '\0acme\0key\0more'],
    ['an authorization identity', 'root\0acme\0key'],
    ['no user name', '\0\0key'],
  ])('PLAIN with %s is invalid', (_title, response) => {
    expect(readSasl('PLAIN', Buffer.from(response))).toBeUndefined();
  });

  it.each([
    ['nothing', Buffer.alloc(0)],
    ['no password', amqplain(login('acme'))],
    ['no login', amqplain(password('key'))],
    ['an empty login', amqplain(login(''), password('key'))],
    ['a login that is a number', amqplain(tableEntry('LOGIN', 't', Buffer.from([1])), password('key'))],
    ['a table cut short', amqplain(login('acme'), password('key')).subarray(0, 12)],
    ['a PLAIN response', Buffer.from('\0acme\0key')],
    ['names in lower case', amqplain(tableEntry('login', 'S', longString('acme')), password('key'))],
    [
      'a login in __proto__',
      amqplain(tableEntry('__proto__', 'F', tableBytes(login('acme'), password('key')))),
    ],
  ])('AMQPLAIN with %s is invalid', (_title, response) => {
    expect(readSasl('AMQPLAIN', response)).toBeUndefined();
  });

  it.each(['EXTERNAL', 'plain', 'ANONYMOUS', '', 'PLAIN AMQPLAIN', '__proto__'])(
    'mechanism %j is invalid',
    (mechanism) => {
      expect(readSasl(mechanism, Buffer.from('\0acme\0key'))).toBeUndefined();
    },
  );

  it('gives credentials with a user name, or none, for random bytes', () => {
    forMany(
      1_000,
      fc.constantFrom('PLAIN', 'AMQPLAIN'),
      fc.uint8Array({ maxLength: 100 }),
      (mechanism, bytes) => {
        const credential = readSasl(mechanism, Buffer.from(bytes));
        if (credential) expect(credential.username).not.toBe('');
      },
    );
  });
});
